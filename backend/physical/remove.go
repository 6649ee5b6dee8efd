package physical

import (
	"context"
	"errors"
	"syscall"

	"capd/vfs"
)

// Remove removes a file, a link or an empty directory, and refuses what else
// there may be. With a condition the file is moved aside first, so that what is
// removed is what was verified.
func (d *Dir) Remove(ctx context.Context, name string, c vfs.If) error {
	if err := d.changeable(ctx); err != nil {
		return err
	}
	if err := checkName(name); err != nil {
		return err
	}
	var was seen
	var err error
	var st *stage
	done := func() {}
	defer func() { done() }()
	changing := changing{s: d.s}
	defer changing.drop()
	err = commit(ctx,
		func() (vfs.Effect, error) {
			if was, err = d.removable(ctx, name, c); err != nil {
				return vfs.Effect{}, err
			}
			if !c.Is.IsZero() && st == nil {
				if st, done, err = d.s.staging.near(d.at); err != nil {
					done = func() {}
					return vfs.Effect{}, err
				}
			}
			return vfs.Effect{}, nil
		},
		func(vfs.Effect) (vfs.Effect, bool, error) {
			defer d.s.lock(vfs.Join(d.at.path, name))()
			dir, err := d.s.enter(d.at)
			if err != nil {
				return vfs.Effect{}, false, err
			}
			defer d.s.leave(dir)
			if err := changing.of(dir, d.at); err != nil {
				return vfs.Effect{}, false, err
			}
			if st != nil {
				return d.removeVerified(dir, name, st, was)
			}
			return d.remove(dir, name, was)
		})
	if err != nil {
		return err
	}
	return changing.sync(ctx)
}

func (d *Dir) removable(ctx context.Context, name string, c vfs.If) (seen, error) {
	was, err := d.seen(ctx, name, c)
	if err != nil {
		return seen{}, err
	}
	switch {
	case !was.exists && c.Is.IsZero():
		return seen{}, vfs.At("", vfs.NotFound)
	case was.attr.kind == vfs.Other && was.exists:
		return seen{}, was.attr.regular()
	}
	return was, unconditional(was, c)
}

// unconditional checks c, which on anything but a file is invalid.
func unconditional(was seen, c vfs.If) error {
	if was.exists && was.attr.kind != vfs.FileKind && !c.IsZero() {
		return vfs.ErrNoVersion
	}
	return c.Check(was.exists, was.version)
}

// remove removes what was seen, or answers again when something else is there.
func (d *Dir) remove(dir directory, name string, was seen) (e vfs.Effect, again bool, err error) {
	now, err := dir.lstat(name)
	if err != nil {
		return e, false, explain(err)
	}
	if now.kind != was.attr.kind {
		return e, true, nil
	}
	if now.kind == vfs.DirKind {
		err = dir.rmdir(name)
		if vfs.CodeOf(explain(err)) == vfs.NotEmpty || isExist(err) {
			d.sweepBelow(dir, name)
			err = dir.rmdir(name)
		}
		if isExist(err) {
			err = vfs.NotEmpty
		}
	} else {
		err = dir.unlink(name)
	}
	if err != nil {
		kindChanged := errors.Is(err, syscall.ENOTDIR) || errors.Is(err, syscall.EISDIR)
		return e, kindChanged, explain(err)
	}
	return growth(now, -1), false, nil
}

// sweepBelow removes dead staging directories, which no Dir shows, from the
// directory called name.
func (d *Dir) sweepBelow(dir directory, name string) {
	if sub, _, err := dir.sub(name); err == nil {
		d.s.staging.sweep(sub)
		sub.release()
	}
}

// growth is what n more nodes like a come to.
func growth(a attr, n int64) vfs.Effect {
	e := vfs.Effect{Nodes: n}
	if a.kind == vfs.FileKind {
		e.Bytes = n * a.size
	}
	return e
}

func (d *Dir) removeVerified(dir directory, name string, st *stage, was seen) (e vfs.Effect, again bool, err error) {
	aside, err := d.s.enter(st.at)
	if err != nil {
		return e, false, err
	}
	defer d.s.leave(aside)
	now, err := dir.lstat(name)
	if err != nil && !isNotExist(err) {
		return e, false, explain(err)
	}
	if err != nil || !was.attr.unchanged(now) {
		return e, true, nil
	}
	tmp := st.temporary()
	if err := dir.move(name, aside, tmp, noReplace); err != nil {
		return e, isNotExist(err), explain(err)
	}
	old, ok := displaced(aside, tmp, was)
	if ok {
		if err := aside.unlink(tmp); err != nil {
			return e, false, explain(err)
		}
		return growth(old, -1), false, nil
	}
	if err := aside.move(tmp, dir, name, noReplace); err != nil {
		if isExist(err) { // a newer file took the name
			if a, err := aside.lstat(tmp); err == nil && a.kind == vfs.FileKind {
				aside.unlink(tmp)
			}
			return e, true, nil
		}
		return e, false, explain(err)
	}
	return e, true, nil
}
