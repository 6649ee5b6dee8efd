package membrane

import (
	"context"

	"capd/vfs"
)

// Widened returns a view of d for [Together] that may also read, list, remove and write, since that is how changes are staged and
// taken back. ops are what whoever holds d asks for, with paths from d: each needs its rights, and an [OpRead] those to read.
// The caller closes the view. For a Dir behind no membrane it is d itself, which stays open.
func Widened(ctx context.Context, d vfs.Dir, ops []Op) (wide vfs.Dir, end func(), err error) {
	v, ok := d.(*dirView)
	if !ok {
		return d, func() {}, nil
	}
	if _, err := v.allTargets(ctx, ops); err != nil {
		return nil, nil, err
	}
	more, err := v.derived(v.base, v.mask&^mode(carries))
	if err != nil {
		return nil, nil, err
	}
	more.(*dirView).wide = true
	return more, func() { more.Close() }, nil
}

// Together runs do, which makes several changes through d as one: ops, with paths from d. parts says what becomes of each path.
//
// Guards see one operation around all of them, [OpChange], and then each with Batch set, if do makes them in a [Hold]. If one of
// ops needs an approval, all are approved with one, which is bound to parts. After that, and after [vfs.Ready] for the whole, do
// is called. If a right that ops need is taken back before the Hold, the context of do ends.
func Together(ctx context.Context, d vfs.Dir, ops []Op, parts []vfs.Part, do func(ctx context.Context) error) error {
	v, ok := d.(*dirView)
	if !ok {
		return do(ctx)
	}
	targets, err := v.allTargets(ctx, ops)
	if err != nil {
		return err
	}
	ends := make([]*rules, len(targets))
	for i, t := range targets {
		ends[i] = t.rules
	}
	whole := Op{Kind: OpChange, Path: v.path, stored: &stored{}, targets: targets}
	return v.guards.around(ctx, whole, ends, whileBound(func(ctx context.Context) error {
		if err := v.approve(ctx, ops, func(bool) ([]vfs.Part, error) { return parts, nil }); err != nil {
			return err
		}
		return do(vfs.InParts(ctx))
	}, targets...))
}

// allTargets returns the places that ops change, or the foremost error with which one of ops is refused.
func (v *dirView) allTargets(ctx context.Context, ops []Op) (all []target, err error) {
	if err := v.check(0); err != nil {
		return nil, err
	}
	for _, op := range ops {
		targets, late := v.targets(op)
		if late == nil {
			late = refusedAt(ctx, op, targets)
		}
		err = foremost(err, late)
		all = append(all, targets...)
	}
	if err != nil {
		return nil, err
	}
	return all, nil
}

// approve answers for ops as a whole. If one of them needs an approval, it waits for that of parts, which it then asks to be pinned.
func (v *dirView) approve(ctx context.Context, ops []Op, parts func(pinned bool) ([]vfs.Part, error)) error {
	why, err := Asking(ctx, v, ops)
	if err != nil {
		return err
	}
	for _, w := range why {
		if err := vfs.Asks(ctx, w); err != nil {
			return err
		}
	}
	asked := len(why) > 0 || vfs.Asked(ctx)
	all, err := parts(asked)
	if err != nil {
		return err
	}
	call := vfs.CallOf(ctx)
	if asked {
		call.Bound = &vfs.Bound{Parts: all}
	}
	return vfs.Ready(vfs.WithCall(ctx, call), vfs.Staged{Parts: all})
}
