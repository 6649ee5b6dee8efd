package vfs

import "context"

// Rename moves between two views. Both ends are unwrapped here, by look at what
// they are: a dst that is behind no membrane, as a guest's own directory, is
// unsupported and never called. The source needs read and write, the target
// write, each by its own capability, whoever holds it.
func (v *dirView) Rename(ctx context.Context, name string, dst Dir, newName string, from, to If) error {
	src, err := v.end(ctx, name, CheckName, noRead|noWrite, true)
	d, ok := dst.(*dirView)
	if !ok {
		return foremost(err, Errorf(Unsupported, "the target directory is not served by this host; copy instead"))
	}
	tgt, err2 := d.end(ctx, newName, CheckNewName, noWrite|to.reads(), true)
	if err := foremost(err, err2); err != nil {
		return err
	}
	rename := whileBound(func(ctx context.Context) error {
		return v.dir.Rename(ctx, name, d.dir, newName, from, to)
	}, src, tgt)
	var size int64
	onlyFile := func(measured bool) error {
		return whileBound(func(ctx context.Context) (err error) {
			from, size, err = v.onlyFile(ctx, name, from, measured)
			return err
		}, src, tgt)(ctx)
	}
	op := Op{Kind: OpRename, Path: src.path, To: tgt.path}
	if d.world == v.world {
		if !src.rules.same(tgt.rules) {
			if err := onlyFile(false); err != nil {
				return err
			}
		}
		return v.change(ctx, op, nil, []target{src, tgt}, rename)
	}
	if v.crosses(d) {
		if err := onlyFile(false); err != nil {
			return err
		}
		return carry(ctx, end{dir: v, name: name}, end{dir: d, name: newName}, from, to)
	}
	// Two grants: each one's guards see it, and each one's meters count it. What
	// the store tells of is what was overwritten, which is the target's.
	if err := onlyFile(true); err != nil {
		return err
	}
	op.To = ""
	leaves := func(Effect) Effect { return Effect{-size, -1} }
	comes := func(e Effect) Effect { return Effect{e.Bytes + size, e.Nodes + 1} }
	return v.change(ctx, op, leaves, []target{src}, func(ctx context.Context) error {
		return d.change(ctx, Op{Kind: OpReplace, Path: tgt.path}, comes, []target{tgt}, rename)
	})
}

// crosser is a Dir that may be composed of several trees.
type crosser interface {
	crosses(dst Dir) bool
}

// crosses reports whether v and dst lead to two trees of one namespace, between
// which a move is several changes.
func (v *dirView) crosses(dst Dir) bool {
	x, ok := v.dir.(crosser)
	d, view := dst.(*dirView)
	return ok && view && x.crosses(d.dir)
}

// onlyFile is for a move to where other rules apply: a directory would bring
// what they concern, so that only a file goes, and the condition that it is this
// one is made part of the change. When it is to be measured, size is what a file
// of that version has, whatever happens to the place meanwhile.
func (v *dirView) onlyFile(ctx context.Context, name string, from If, measured bool) (is If, size int64, err error) {
	err = v.world.within(ctx, func(ctx context.Context) error {
		is, size, err = v.fileAlone(ctx, name, from, measured)
		return err
	})
	return is, size, err
}

func (v *dirView) fileAlone(ctx context.Context, name string, from If, measured bool) (_ If, size int64, err error) {
	n, err := v.dir.Lookup(ctx, name)
	if err != nil {
		return from, 0, err
	}
	defer n.Close()
	f, ok := n.(File)
	if !ok {
		return from, 0, Errorf(Denied, "a directory or a link cannot move to where other rules apply, whether or not they concern what it holds; move its files")
	}
	var is Version
	switch {
	case measured:
		is, size, err = measure(ctx, f)
	case from.Is.IsZero():
		is, err = VersionOf(ctx, f)
	default:
		is = from.Is
	}
	if err == nil {
		err = from.Check(true, is)
	}
	from.Is = is
	return from, size, err
}

// measure reads a file whole: its version, and how long it is then.
func measure(ctx context.Context, f File) (Version, int64, error) {
	c, err := Open(ctx, f)
	if err != nil {
		return Version{}, 0, err
	}
	defer c.Close()
	return hash(ctx, c)
}
