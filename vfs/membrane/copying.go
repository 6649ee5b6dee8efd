package membrane

import (
	"context"
	"strings"

	"capd/vfs"
)

// Copying runs do, which copies the node called name in src to newName in dst, with views of the two that may also do what a
// copy takes: list, compare, and remove what it has made. It answers the error with which the rights at the two places, or
// policy, refuse the copy; whoever copies needs those to read, also to list for a directory, and to write at the target. to is the
// condition there: a version needs the right to read, and Over that to delete. A directory cannot be copied into itself: invalid.
func Copying(ctx context.Context, src vfs.Dir, name string, dst vfs.Dir, newName string, to vfs.If, kind vfs.Kind, do func(src, dst vfs.Dir) error) error {
	var errs [2]error
	v, ok := src.(*dirView)
	if ok {
		need := OpCopy.need()
		if kind == vfs.DirKind {
			need |= OpList.need()
		}
		_, errs[0] = v.target(ctx, name, vfs.CheckName, need, false)
	}
	d, of := dst.(*dirView)
	if of {
		_, errs[1] = d.target(ctx, newName, vfs.CheckNewName, onto(OpCopy, to), true)
	}
	if err := foremost(errs[:]...); err != nil {
		return err
	}
	if ok && of && kind == vfs.DirKind && v.guards == d.guards && strings.HasPrefix(d.path+"/", vfs.Join(v.path, name)+"/") {
		return vfs.Errorf(vfs.Invalid, "a directory cannot be copied into itself; choose a place outside of it")
	}
	return carried(src, dst, do)
}

// Copied runs do, which makes the new directory name in d with everything in it, as one change: guards see one [OpCopy] around
// all of it, and then what it is made of. ops are all of what do makes, with paths from d. If one of ops needs an approval, all
// are approved with one. parts returns what there will be, with paths from the new directory; pinned asks for versions, and that nothing else is
// made from then on. The path of an error is from the new directory.
func Copied(ctx context.Context, d vfs.Dir, name string, ops []Op, parts func(pinned bool) ([]vfs.Part, error), do func(ctx context.Context) error) error {
	v, ok := d.(*dirView)
	if !ok {
		return do(ctx)
	}
	t, err := v.target(ctx, name, vfs.CheckNewName, OpMkdir.need(), true)
	if err != nil {
		return err
	}
	for _, op := range ops {
		targets, err := v.targets(op)
		if err == nil {
			err = refusedAt(ctx, op, targets)
		}
		if err != nil {
			return vfs.At(strings.TrimPrefix(strings.TrimPrefix(op.Path, name), "/"), err)
		}
	}
	whole := Op{Kind: OpCopy, Path: t.path, stored: &stored{}, targets: []target{t}}
	return v.guards.around(ctx, whole, []*rules{t.rules}, whileBound(func(ctx context.Context) error {
		if err := v.approve(ctx, ops, parts); err != nil {
			return err
		}
		return do(vfs.InParts(ctx))
	}, t))
}
