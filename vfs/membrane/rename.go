package membrane

import (
	"context"

	"capd/vfs"
)

// Rename moves between two views. dst must be behind a membrane of the same store. For
// any other Dir, such as one that a guest implements, Rename answers unsupported and
// never calls it. The source needs the rights to move and read and the target those to
// move and write, and that to delete if to says Over, each from its own capability.
func (v *dirView) Rename(ctx context.Context, name string, dst vfs.Dir, newName string, from, to vfs.If) error {
	src, err := v.target(ctx, name, vfs.CheckName, OpRename.need(), true)
	d, ok := dst.(*dirView)
	if !ok {
		return foremost(err, vfs.Errorf(vfs.Unsupported, "the target directory is not served by this host; copy instead"))
	}
	tgt, err2 := d.target(ctx, newName, vfs.CheckNewName, onto(OpRename, to), true)
	if err := foremost(err, err2); err != nil {
		return err
	}
	if err := v.movable(ctx, name, src, d, newName, tgt); err != nil {
		return err
	}
	if from, err = src.compares(ctx, from, v.version(name)); err != nil {
		return err
	}
	if to, err = tgt.compares(ctx, to, d.version(newName)); err != nil {
		return err
	}
	if temps := v.tempsWith(d); temps != nil {
		return carried(v, d, func(src, dst vfs.Dir) error { return temps.Carry(ctx, src, name, dst, newName, from, to) })
	}
	src.compared = false // a move reads what it moves, whatever its condition is
	op := Op{Kind: OpRename, Path: src.path, To: tgt.path}
	carry := v.carrier(d)
	if d.guards != v.guards {
		ctx = vfs.InParts(ctx)
	}
	ctx, from, to, err = v.moving(ctx, op, end{v, src, name, from}, end{d, tgt, newName, to})
	if err != nil {
		return err
	}
	ctx = movingLinks(ctx, v, d)
	rename := whileBound(func(ctx context.Context) error {
		err := v.renamed(ctx, name, d, newName, from, to)
		if to.Over {
			err = d.holding(ctx, newName, tgt, err)
		}
		return err
	}, src, tgt)
	var size int64
	onlyFile := func(measured bool) error {
		return whileBound(func(ctx context.Context) error {
			return v.guards.within(ctx, func(ctx context.Context) (err error) {
				from, size, err = v.fileAlone(ctx, name, from, measured)
				return err
			})
		}, src, tgt)(ctx)
	}
	if d.guards == v.guards {
		if !src.rules.same(tgt.rules) {
			if err := onlyFile(false); err != nil {
				return err
			}
		}
		return v.change(ctx, op, nil, []target{src, tgt}, rename)
	}
	if carry != nil {
		if err := onlyFile(false); err != nil {
			return err
		}
		return carried(v, d, func(src, dst vfs.Dir) error { return carry(ctx, src, name, dst, newName, from, to) })
	}
	// Between two grants the guards and meters of both apply. The store reports only
	// what was overwritten, which belongs to the target.
	if err := onlyFile(true); err != nil {
		return err
	}
	op.To = ""
	leaves := func(vfs.Effect) vfs.Effect { return vfs.Effect{Bytes: -size, Nodes: -1} }
	comes := func(e vfs.Effect) vfs.Effect { return vfs.Effect{Bytes: e.Bytes + size, Nodes: e.Nodes + 1} }
	return v.change(ctx, op, leaves, []target{src}, func(ctx context.Context) error {
		return d.change(ctx, Op{Kind: OpReplace, Path: tgt.path}, comes, []target{tgt}, rename)
	})
}

// renamed moves name inside the guards.
func (v *dirView) renamed(ctx context.Context, name string, d *dirView, newName string, from, to vfs.If) error {
	rename := func(ctx context.Context) error { return v.dir.Rename(ctx, name, d.dir, newName, from, to) }
	if !v.ofStore() {
		return rename(ctx)
	}
	return v.moved(ctx, name, vfs.Join(d.path, newName), rename)
}

// onto returns the rights that a move or a copy under the condition to needs at its target. What it
// displaces, whatever that is, is removed.
func onto(k OpKind, to vfs.If) mode {
	need := needs[k].target | reads(to)
	if to.Over {
		need |= noDelete
	}
	return need
}

// carries are the rights with which a move between two trees, or a copy, is made: the nodes are listed,
// copied, compared and removed. Whoever may move or copy need not have them.
const carries = Read | Write | Delete | List | Metadata

// carried runs do with views of src and dst that have these rights too. The caller has checked
// that the move may be made. What the gates refuse is refused all the same.
func carried(src, dst vfs.Dir, do func(src, dst vfs.Dir) error) error {
	var ends [2]vfs.Dir
	for i, end := range []vfs.Dir{src, dst} {
		d, ok := end.(*dirView)
		if ends[i] = end; !ok || d.mask.rights()&carries == carries {
			continue
		}
		more, err := d.derived(d.base, d.mask&^mode(carries))
		if err != nil {
			return err
		}
		defer more.Close()
		ends[i] = more
	}
	return do(ends[0], ends[1])
}

// fileAlone checks a move to where other rules apply. Only a file may go, since other
// rules might apply to what a directory holds. The file's version becomes a condition
// of the change. If measured is set, size is the size of that version, whatever happens
// to the place meanwhile.
func (v *dirView) fileAlone(ctx context.Context, name string, from vfs.If, measured bool) (_ vfs.If, size int64, err error) {
	n, err := v.dir.Lookup(ctx, name)
	if err != nil {
		return from, 0, err
	}
	defer n.Close()
	f, ok := n.(vfs.File)
	if !ok {
		return from, 0, vfs.Errorf(vfs.Denied, "a directory or a link cannot move to a place with other rules, even if they do not concern its content; move its files")
	}
	var is vfs.Version
	switch {
	case measured:
		is, size, err = measure(ctx, f)
	case from.Is.IsZero():
		is, err = vfs.VersionOf(ctx, f)
	default:
		is = from.Is
	}
	if err == nil {
		err = from.Check(true, is)
	}
	from.Is = is
	return from, size, err
}

// measure reads a whole file and returns its version and size.
func measure(ctx context.Context, f vfs.File) (vfs.Version, int64, error) {
	c, err := vfs.Open(ctx, f)
	if err != nil {
		return vfs.Version{}, 0, err
	}
	defer c.Close()
	return vfs.Hash(ctx, c)
}
