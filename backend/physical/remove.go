package physical

import (
	"context"
	"errors"
	"slices"
	"syscall"

	"capd/vfs"
)

// Remove removes a file, a link or an empty directory, and refuses any other node. With
// a condition it first moves the file aside, so that it removes exactly the file that
// it verified.
func (d *Dir) Remove(ctx context.Context, name string, c vfs.If) error {
	if err := d.changeable(ctx); err != nil {
		return err
	}
	if err := checkName(name); err != nil {
		return err
	}
	err := d.removeOnce(ctx, name, c)
	if vfs.CodeOf(err) == vfs.NotEmpty && d.swept(ctx, name) {
		err = d.removeOnce(ctx, name, c)
	}
	return err
}

func (d *Dir) removeOnce(ctx context.Context, name string, c vfs.If) error {
	r := removal{d: d, name: name, c: c, changing: changing{s: d.s}, done: func() {}}
	defer func() { r.unpin(); r.done() }()
	defer r.changing.drop()
	err := commit(ctx,
		func() (vfs.Staged, error) {
			err := r.prepare(ctx)
			return vfs.Staged{Was: r.was.attr.info(), Keeps: d.s.keeps(ctx, r.was.attr)}, err
		},
		func(vfs.Effect) (vfs.Effect, bool, error) { return r.commit(ctx) })
	if err != nil {
		return err
	}
	return r.changing.sync(ctx)
}

type removal struct {
	d        *Dir
	name     string
	c        vfs.If
	was      seen
	st       *stage // where the verified file is moved to; nil without a condition
	done     func() // releases st
	changing changing
	pins
}

func (r *removal) prepare(ctx context.Context) (err error) {
	if r.was, err = r.d.removable(ctx, r.name, r.c); err != nil || r.c.Is.IsZero() || r.st != nil {
		return err
	}
	st, done, err := r.d.s.staging.near(r.d.at)
	if err == nil {
		r.st, r.done = st, done
	}
	return err
}

// commit removes the node, inside Commit.
func (r *removal) commit(ctx context.Context) (e vfs.Effect, again bool, err error) {
	d := r.d
	defer d.s.lock(vfs.Join(d.at.path, r.name))()
	dir, err := d.s.enter(d.at)
	if err != nil {
		return e, false, err
	}
	defer d.s.leave(dir)
	if err := r.changing.of(dir, d.at); err != nil {
		return e, false, err
	}
	r.pin(dir, r.name, r.was.attr)
	if r.st != nil {
		return d.removeVerified(ctx, dir, r.name, r.st, r.was)
	}
	return d.remove(ctx, dir, r.name, r.was)
}

// removable returns what is called name, if c allows to remove or move it.
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

// unconditional checks c, which is invalid on anything but a file.
func unconditional(was seen, c vfs.If) error {
	if was.exists && was.attr.kind != vfs.FileKind && !c.IsZero() {
		return vfs.ErrNoVersion
	}
	return c.Check(was.exists && was.attr.kind == vfs.FileKind, was.version)
}

// remove removes the node that was seen. It returns again when another one is there.
func (d *Dir) remove(ctx context.Context, dir directory, name string, was seen) (e vfs.Effect, again bool, err error) {
	now, err := dir.lstat(name)
	if err != nil {
		return e, false, explain(err)
	}
	if now.kind != was.attr.kind {
		return e, true, nil
	}
	if now.kind == vfs.DirKind {
		if err = dir.rmdir(name); isExist(err) {
			err = vfs.NotEmpty
		}
	} else {
		keep(ctx, dir, name, now)
		err = dir.unlink(name)
	}
	if err != nil {
		kindChanged := errors.Is(err, syscall.ENOTDIR) || errors.Is(err, syscall.EISDIR)
		return e, kindChanged, explain(err)
	}
	return growth(now, -1), false, nil
}

// swept reports whether the directory called name holds only staging directories, which
// no Dir shows, and removes those of dead processes. It stops at the first other entry.
func (d *Dir) swept(ctx context.Context, name string) bool {
	dir, err := d.s.enter(d.at)
	if err != nil {
		return false
	}
	defer d.s.leave(dir)
	sub, _, err := dir.sub(name)
	if err != nil {
		return false
	}
	defer sub.release()
	err = sub.entries(func(some []vfs.Entry) error {
		if slices.ContainsFunc(some, func(e vfs.Entry) bool { return !isStaging(e.Name) }) {
			return errFound
		}
		return d.usable(ctx)
	})
	if err != nil {
		return false
	}
	d.s.staging.sweep(sub)
	return true
}

// growth returns how much n more nodes like a add.
func growth(a attr, n int64) vfs.Effect {
	e := vfs.Effect{Nodes: n}
	if a.kind == vfs.FileKind {
		e.Bytes = n * a.size
	}
	return e
}

func (d *Dir) removeVerified(ctx context.Context, dir directory, name string, st *stage, was seen) (e vfs.Effect, again bool, err error) {
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
	keep(ctx, dir, name, now)
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
