package membrane

import (
	"cmp"
	"context"
	"iter"

	"capd/vfs"
)

// dirView is a directory behind a membrane.
type dirView struct {
	view
	dir vfs.Dir
}

// child returns the path of name below v.
func (v *dirView) child(name string, check func(string) error) (string, error) {
	if err := check(name); err != nil {
		return "", err
	}
	path := vfs.Join(v.path, name)
	return path, vfs.CheckPathSize(path)
}

// target returns the place called name for a change that needs the rights in need.
// moves says that the change moves the node there. It asks the gate and policy, but not
// the store.
func (v *dirView) target(ctx context.Context, name string, check func(string) error, need mode, moves bool) (target, error) {
	path, err := v.child(name, check)
	t := target{view: &v.view, path: path, need: need, moves: moves}
	if err == nil {
		t.rules = v.standing().step(name)
		err = t.refused(ctx)
		if rank(err) > rank(vfs.Denied) && err != nil && Withholds(v.dir, name) {
			err = vfs.Denied
		}
		return t, err
	}
	if vfs.IsImmutable(v.dir) {
		err = vfs.ReadOnly // as the store answers for any other name
	}
	return t, cmp.Or(v.may(ctx, need), err)
}

// Lookup leaves a bad name to the store, which refuses it. It checks the name itself
// only where something else than the store would answer first.
func (v *dirView) Lookup(ctx context.Context, name string) (vfs.Node, error) {
	if err := v.may(ctx, blind); err != nil {
		return nil, err
	}
	path, r := vfs.Join(v.path, name), v.standing().step(name)
	err := vfs.CheckPathSize(path)
	if err == nil && v.guards.hides(r) && !restores(ctx) {
		err = vfs.Denied
	}
	if err != nil || !v.guards.bare(r) {
		if err = cmp.Or(vfs.CheckName(name), err); err != nil {
			return nil, err
		}
	}
	node, err := v.looked(ctx, name, path, r)
	if !restores(ctx) {
		node, err = r.passed(node, err)
	}
	if late := v.may(ctx, blind); late != nil {
		err = late
	}
	if err != nil && node != nil {
		node.Close()
		node = nil
	}
	return node, err
}

// looked returns a view of the node that the inner directory has at name, which is at
// path and has the rules r.
func (v *dirView) looked(ctx context.Context, name, path string, r *rules) (vfs.Node, error) {
	if !restores(ctx) && !v.guards.bare(r) {
		return v.guardedLook(ctx, name, path, r)
	}
	in, err := v.guards.enter(ctx)
	if err != nil {
		return nil, err
	}
	defer in.exit()
	n, err := v.dir.Lookup(ctx, name)
	if err != nil {
		return nil, err
	}
	return v.wrap(n, path, r)
}

func (v *dirView) guardedLook(ctx context.Context, name, path string, r *rules) (node vfs.Node, err error) {
	err = v.guards.around(ctx, Op{Kind: OpLookup, Path: path}, []*rules{r}, func(ctx context.Context) error {
		n, err := v.dir.Lookup(ctx, name)
		if err != nil {
			return err
		}
		node, err = v.wrap(n, path, r)
		return err
	})
	return node, err
}

// LookPath implements [vfs.PathLooker]. Where a guard stands around a lookup, or anything is
// refused, every name is looked up by itself: that says which refusal comes first.
func (v *dirView) LookPath(ctx context.Context, names []string) (vfs.Node, error) {
	path := vfs.JoinAll(v.path, names)
	r, ok := v.passes(names)
	switch {
	case !ok, vfs.CheckPathSize(path) != nil, v.may(ctx, blind) != nil:
		return nil, vfs.ErrStepwise
	case vfs.IsTrying(ctx) && !vfs.CanTry(v.dir):
		return nil, vfs.ErrWouldBlock
	}
	n, err := v.pathLooked(ctx, names)
	if err != nil {
		if v.bindAt(path).mode().refuse(blind) != nil {
			return nil, vfs.ErrStepwise
		}
		return nil, err
	}
	return v.wrapAll(n, path, r)
}

// pathLooked asks the inner directory inside the bulkhead.
func (v *dirView) pathLooked(ctx context.Context, names []string) (vfs.Node, error) {
	in, err := v.guards.enter(ctx)
	if err != nil {
		return nil, err
	}
	defer in.exit()
	return vfs.LookPath(ctx, v.dir, names)
}

// passes returns the rules at names, if no rule on the way withholds a name, and no
// guard stands around its lookup.
func (v *dirView) passes(names []string) (r *rules, ok bool) {
	r = v.standing()
	for _, name := range names {
		r = r.step(name)
		if v.guards.hides(r) || r.through() || !v.guards.bare(r) {
			return nil, false
		}
	}
	return r, true
}

// wrapAll is wrap for LookPath. The gate binds a node at least as much as the
// directories on the way to it, so it is asked about the node.
func (v *dirView) wrapAll(n vfs.Node, path string, r *rules) (vfs.Node, error) {
	n, err := v.wrap(n, path, r)
	if err != nil {
		return nil, err
	}
	if g, ok := n.(gated); !ok || g.check(blind) != nil {
		n.Close()
		return nil, vfs.ErrStepwise
	}
	return n, nil
}

// gated is every kind of view.
type gated interface {
	check(mode) error
	mode() mode
}

func (v *dirView) List(ctx context.Context) iter.Seq2[vfs.Entry, error] { return v.ListFrom(ctx, "") }

// ListFrom implements [vfs.FromLister].
func (v *dirView) ListFrom(ctx context.Context, from string) iter.Seq2[vfs.Entry, error] {
	return func(yield func(vfs.Entry, error) bool) {
		more := true
		err := v.look(ctx, OpList, func(ctx context.Context) error {
			v.note(OpList)
			for e, err := range v.guards.entries(ctx, v.dir, from) {
				if err != nil {
					return err
				}
				if v.guards.skips(v.standing(), e.Name) {
					continue
				}
				if err := v.may(ctx, noList); err != nil {
					return err
				}
				if more = yield(e, nil); !more {
					return nil
				}
			}
			return nil
		})
		if err != nil && more {
			yield(vfs.Entry{}, err)
		}
	}
}

func (v *dirView) Create(ctx context.Context, name string) (vfs.File, error) {
	f := &fileView{}
	f.leaf = true
	err := v.make(ctx, OpCreate, name, &f.view, func(ctx context.Context) (n vfs.Node, err error) {
		f.file, err = v.dir.Create(ctx, name)
		return f.file, err
	})
	if err != nil {
		return nil, err
	}
	return f, nil
}

func (v *dirView) Mkdir(ctx context.Context, name string) (vfs.Dir, error) {
	d := &dirView{}
	err := v.make(ctx, OpMkdir, name, &d.view, func(ctx context.Context) (n vfs.Node, err error) {
		d.dir, err = v.dir.Mkdir(ctx, name)
		return d.dir, err
	})
	if err != nil {
		return nil, err
	}
	return d, nil
}

// make creates a node and its view d. It reserves room for the node first; until the
// node exists, d is a view of the directory.
func (v *dirView) make(ctx context.Context, kind OpKind, name string, d *view, do func(context.Context) (vfs.Node, error)) error {
	t, err := v.target(ctx, name, vfs.CheckNewName, kind.need(), false)
	if err != nil {
		return err
	}
	op := Op{Kind: kind, Path: t.path}
	if ctx, err = v.making(ctx, op, t, nil); err != nil {
		return err
	}
	if err := v.derive(d, v.inner.retain(), t.path, t.rules); err != nil {
		return err
	}
	err = v.change(ctx, op, nil, []target{t}, func(ctx context.Context) error {
		n, err := do(ctx)
		if err == nil {
			d.inner.release()
			d.inner = newShared(n)
		}
		return err
	})
	if err != nil {
		d.Close()
	}
	return err
}

// Symlink implements [vfs.Symlinker].
func (v *dirView) Symlink(ctx context.Context, name, text string) error {
	return v.symlink(ctx, name, text, OpSymlink.need(), func() error { return nil })
}

// symlink makes a link, for which it needs the rights in need. check has the last word before anybody is asked.
func (v *dirView) symlink(ctx context.Context, name, text string, need mode, check func() error) error {
	t, err := v.target(ctx, name, vfs.CheckNewName, need, false)
	if err == nil {
		err = check()
	}
	if err != nil {
		return err
	}
	op := Op{Kind: OpSymlink, Path: t.path}
	if ctx, err = v.making(ctx, op, t, []byte(text)); err != nil {
		return err
	}
	return v.change(ctx, op, nil, []target{t}, func(ctx context.Context) error {
		if !v.ofStore() {
			return vfs.Symlink(ctx, v.dir, name, text)
		}
		return v.guards.links.some(ctx, func() error { return vfs.Symlink(ctx, v.dir, name, text) })
	})
}
