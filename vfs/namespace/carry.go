package namespace

import (
	"context"

	"capd/vfs"
	"capd/vfs/copier"
	"capd/vfs/membrane"
)

// maxCarried is how many nodes one move between trees may have.
const maxCarried = 1 << 16

// carryEnd is the source or the target of a move between trees.
type carryEnd struct {
	dir     vfs.Dir
	name    string
	noLinks bool // the tree refuses links
}

// carry moves the node at src, in one tree, to dst in another, with everything in it; see
// [copier.Move]. It answers limit for more than maxCarried nodes, or for more than the caller's open calls may hold, and denied for a
// directory in which policy hides something.
func carry(ctx context.Context, src, dst carryEnd, from, to vfs.If) error {
	if err := membrane.MayMove(ctx, src.dir, src.name, dst.dir, dst.name, to); err != nil {
		return err
	}
	asked := approval{ctx, src, dst}
	ctx = vfs.InParts(ctx)
	held := membrane.CallBytesOf(ctx)
	defer held.End()
	o := copier.Options{Limits: copier.Limits{Entries: maxCarried}, Workers: 1, Listed: whole, Planned: asked.first, Hold: smaller(held.Take)}
	room := membrane.Room(ctx, dst.dir)
	o.Link = func(_ context.Context, path, target string) error {
		if src.noLinks || dst.noLinks {
			return vfs.ErrNoLinks
		}
		return membrane.CheckMoved(path, target, room)
	}
	return copier.Move(ctx, copier.Spot{Dir: src.dir, Name: src.name, If: from}, copier.Spot{Dir: dst.dir, Name: dst.name, If: to}, o)
}

// smaller is take for a move: a smaller one may have room.
func smaller(take func(int64) error) func(int64) error {
	return func(n int64) error {
		err := take(n)
		if vfs.CodeOf(err) == vfs.Limit {
			err = vfs.Errorf(vfs.Limit, "%s, or move a smaller part", vfs.Message(err))
		}
		return err
	}
}

// whole answers denied for a directory in which policy hides something: that could
// neither be moved nor stay.
func whole(ctx context.Context, d vfs.Dir, _ string) error {
	some, err := membrane.Conceals(ctx, d)
	if err == nil && some {
		place, _ := membrane.PlaceOf(d)
		err = &vfs.Error{Code: vfs.Denied, Msg: "it cannot be moved to another tree: policy decides about what it may hold; move its files", Cause: &membrane.Disclosure{Path: place.Path}}
	}
	return err
}
