package membrane

import (
	"context"
	"slices"

	"capd/vfs"
)

// Asking returns why ops, which are changes through d, need an approval; nothing if none does. It asks no store and no guard's
// Around. If one does, Asking also answers the error with which rights or policy refuse one of ops.
func Asking(ctx context.Context, d vfs.Dir, ops []Op) (why []string, err error) {
	h := &Holding{ctx: ctx, why: &why}
	if err := h.In(d, ops); err != nil || len(why) == 0 {
		return nil, err
	}
	h.refuse = true
	return why, h.In(d, ops)
}

// asking adds to h why ops need an approval, or answers why one is refused.
func (v *dirView) asking(h *Holding, ops []Op) error {
	for _, op := range ops {
		targets, err := v.targets(op)
		if err != nil {
			return err
		}
		if h.refuse {
			err = refusedAt(h.ctx, op, targets)
		} else {
			err = whys(targets, h.note)
		}
		if err != nil {
			return err
		}
	}
	return h.In(v.dir, ops)
}

// note adds why, if it is new.
func (h *Holding) note(why string) error {
	if !slices.Contains(*h.why, why) {
		*h.why = append(*h.why, why)
	}
	return nil
}

// refusedAt returns why op cannot be made at one of its targets.
func refusedAt(ctx context.Context, op Op, targets []target) error {
	for i, t := range targets {
		if err := t.refused(ctx); err != nil {
			return vfs.At([]string{op.Path, op.To}[i], err)
		}
	}
	return nil
}
