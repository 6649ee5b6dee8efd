package membrane

import (
	"context"

	"capd/vfs"
)

// Composed is a Dir that is made of several trees, each behind a membrane of its own,
// such as a directory of a namespace. It is no membrane itself. A membrane around it asks
// it what one tree alone cannot tell.
type Composed interface {
	vfs.Dir

	// Hold calls [Holding.In] with the directories that ops are in and with ops seen from
	// there.
	Hold(h *Holding, ops []Op) error

	// Withholds reports whether policy withholds name, whether or not it exists.
	Withholds(name string) bool

	// Conceals reports whether the directory may hold more than it lists.
	Conceals(ctx context.Context) (bool, error)

	// OnRevoke is the function OnRevoke. It may call f more than once.
	OnRevoke(f func(error)) (stop func())

	// Journal returns where batches of changes to the directory are written, and its name there.
	Journal() (j vfs.Dir, name string)

	// Tree returns the directory of one tree that this is, behind the membrane of that tree, and nil if it only leads to mounts.
	Tree() vfs.Dir

	// Carry returns how a move from this directory to dst is made if it leads from one
	// tree to another, and nil if it does not. Such a move is several changes.
	Carry(dst vfs.Dir) Carrier
}

// Carrier moves the node called name in src to newName in dst. from and to are as in
// [vfs.Dir].Rename.
type Carrier func(ctx context.Context, src vfs.Dir, name string, dst vfs.Dir, newName string, from, to vfs.If) error

// carrier returns how a move from v to dst is made if they are in two trees of one
// namespace.
func (v *dirView) carrier(dst vfs.Dir) Carrier {
	d, ok := dst.(*dirView)
	if !ok {
		return nil
	}
	switch in := v.dir.(type) {
	case *dirView:
		return in.carrier(d.dir)
	case Composed:
		return in.Carry(d.dir)
	}
	return nil
}

// JournalOf returns where a host writes batches of changes through d before it makes them, and the name by which the
// next process finds what d leads to. It returns nil for a Dir for which nothing is kept.
func JournalOf(d vfs.Dir) (j vfs.Dir, name string) {
	switch d := d.(type) {
	case *dirView:
		if d.guards.journal != nil {
			return d.guards.journal, ""
		}
		return JournalOf(d.dir)
	case Composed:
		return d.Journal()
	}
	return nil, ""
}

// Withholds reports whether policy between d and the store withholds name, whether or not
// it exists.
func Withholds(d vfs.Dir, name string) bool {
	switch d := d.(type) {
	case *dirView:
		return d.guards.hidesIn(d.standing(), name) || Withholds(d.dir, name)
	case Composed:
		return d.Withholds(name)
	}
	return false
}

// Conceals reports whether policy withholds something that d holds.
func Conceals(ctx context.Context, d vfs.Dir) (bool, error) {
	switch d := d.(type) {
	case *dirView:
		for e, err := range d.guards.entries(ctx, d.dir, "") {
			if err != nil {
				return false, err
			}
			if d.guards.skips(d.standing(), e.Name) {
				return true, nil
			}
		}
		return Conceals(ctx, d.dir)
	case Composed:
		return d.Conceals(ctx)
	}
	return false, nil
}

// MayMove returns the error with which the rights of src and dst, or policy, refuse a move
// from name in src to newName in dst. It returns nil if they allow the move. It asks no
// store. to is the condition on the target.
func MayMove(ctx context.Context, src vfs.Dir, name string, dst vfs.Dir, newName string, to vfs.If) error {
	var errs [2]error
	if v, ok := src.(*dirView); ok {
		_, errs[0] = v.target(ctx, name, vfs.CheckName, OpRename.need(), true)
	}
	if v, ok := dst.(*dirView); ok {
		_, errs[1] = v.target(ctx, newName, vfs.CheckNewName, onto(OpRename, to), true)
	}
	return foremost(errs[:]...)
}

// MayMoveAll is MayMove for all that moves from d, or into it: paths are from d, of a directory and of what it holds. asked reports
// whether policy has an approval asked for because something moves, whatever is made and removed by that.
func MayMoveAll(ctx context.Context, d vfs.Dir, paths []string, into bool) (asked bool, err error) {
	v, ok := d.(*dirView)
	if !ok {
		return false, nil
	}
	need := OpRename.need()
	if into {
		need = needs[OpRename].target
	}
	for _, path := range paths {
		t, err := v.targetOf(path, need, true)
		if err == nil {
			err = t.refused(ctx)
		}
		if err != nil {
			return false, err
		}
		_ = whys([]target{t}, func(string) error { asked = true; return nil })
	}
	return asked, nil
}
