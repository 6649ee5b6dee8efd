package membrane

import (
	"context"
	"strings"

	"capd/meter"
	"capd/vfs"
)

// History knows what was changed through the capabilities of a tree. A guard has it.
type History interface {
	History(ctx context.Context, at Holder, q vfs.PastQuery) (vfs.PastPage, error)
	Undo(ctx context.Context, at Holder, w vfs.Undo) (vfs.Undone, error)
	Past(ctx context.Context, at Holder, path string, v vfs.Version) (vfs.Content, error)
}

// Holder is who asks a History.
type Holder struct {
	Dir  vfs.Dir      // the view through which it asks, and which decides what it may
	By   *meter.Meter // of the capability
	Path string       // of Dir, from the root of the tree
	Turn string       // see [InTurn]

	v *dirView
}

// May answers why the holder may not read, or with change not change, what is at path below its directory. Nothing need be
// there.
func (h Holder) May(ctx context.Context, path string, kind OpKind) error {
	r, full := h.v.standing(), h.v.path
	if path != "" {
		for name := range strings.SplitSeq(path, "/") {
			r = r.step(name)
			if h.v.guards.hides(r) {
				return vfs.Denied
			}
		}
		full = vfs.Join(full, path)
	}
	return target{view: &h.v.view, path: full, rules: r, need: kind.need()}.refused(ctx)
}

func (v *dirView) holder() (Holder, History, error) {
	if v.guards.history == nil || v.base.meter == nil {
		return Holder{}, nil, vfs.Errorf(vfs.Unsupported, "this host keeps no history of changes")
	}
	return Holder{Dir: v, By: v.base.meter, Path: v.path, Turn: v.turn, v: v}, v.guards.history, nil
}

// History implements [vfs.Historian].
func (v *dirView) History(ctx context.Context, q vfs.PastQuery) (page vfs.PastPage, err error) {
	if err := v.may(ctx, noRead); err != nil {
		return page, err
	}
	at, h, err := v.holder()
	if err == nil {
		page, err = h.History(ctx, at, q)
	}
	if late := v.may(ctx, noRead); late != nil {
		err = late
	}
	if err != nil {
		return vfs.PastPage{}, err
	}
	v.note(OpList)
	return page, nil
}

// Undo implements [vfs.Historian]. What it changes passes v as any change does.
func (v *dirView) Undo(ctx context.Context, w vfs.Undo) (done vfs.Undone, err error) {
	if err := v.may(ctx, noRead); err != nil {
		return done, err
	}
	at, h, err := v.holder()
	if err != nil {
		return done, err
	}
	return h.Undo(ctx, at, w)
}

// Past implements [vfs.Historian].
func (v *dirView) Past(ctx context.Context, path string, version vfs.Version) (vfs.Content, error) {
	at, h, err := v.holder()
	if err == nil {
		err = at.May(ctx, path, OpRead)
	}
	if err != nil {
		return nil, err
	}
	c, err := h.Past(ctx, at, path, version)
	if late := at.May(ctx, path, OpRead); late != nil {
		if err == nil {
			c.Close()
		}
		return nil, late
	}
	if err == nil {
		v.note(OpRead)
	}
	return c, err
}

// InTurn returns d, where what is changed through it belongs to the turn with this name, for history. The name is at most 256
// bytes of UTF-8. Revoking d revokes the result.
func InTurn(d vfs.Dir, turn string) (vfs.Dir, error) {
	v, err := viewOf[*dirView](d)
	if err != nil {
		return nil, err
	}
	if err := vfs.CheckTurn(turn); err != nil {
		return nil, err
	}
	in, err := v.derived(v.base, v.mask)
	if err == nil {
		in.(*dirView).turn = turn
	}
	return in, err
}

// Turn returns the turn that the change belongs to; "" for none.
func (o Op) Turn() string {
	if len(o.targets) == 0 {
		return ""
	}
	return o.targets[0].view.turn
}
