package physical

import (
	"context"
	"io"

	"capd/vfs"
)

// Replace stages r's bytes and puts them in place at once. A new file takes over the
// mode of the old one, without setuid and setgid. As far as the process is allowed to,
// it also takes over the owner, the user.* attributes and the access control list.
// Another name of the old file, a hard link, keeps the old content. The content is on
// disk before it is in place, and the name before Replace returns.
func (d *Dir) Replace(ctx context.Context, name string, r io.Reader, c vfs.If) (vfs.Version, error) {
	return d.replace(ctx, name, r, c, replacing{})
}

// Install implements vfs.Installer. If exec is set, everybody who can read the file can
// execute it.
func (d *Dir) Install(ctx context.Context, name string, r io.Reader, exec bool, c vfs.If) (vfs.Version, error) {
	return d.replace(ctx, name, r, c, replacing{exec: &exec})
}

// replacing is how a file is replaced.
type replacing struct {
	exec *bool // nil keeps the executable bit
	file bool  // through a File, which never creates
}

func (d *Dir) replace(ctx context.Context, name string, r io.Reader, c vfs.If, how replacing) (vfs.Version, error) {
	if err := d.changeable(ctx); err != nil {
		return vfs.Version{}, err
	}
	if err := checkTarget(name); err != nil {
		return vfs.Version{}, err
	}
	if err := d.checkDepth(name); err != nil {
		return vfs.Version{}, err
	}
	if _, err := d.replaceable(ctx, name, c, how); err != nil {
		return vfs.Version{}, err // before anything was done
	}
	st, done, err := d.s.staging.near(d.at)
	if err != nil {
		return vfs.Version{}, err
	}
	defer done()
	t, err := st.newFile()
	if err != nil {
		return vfs.Version{}, err
	}
	defer t.discard()
	t.exec, t.later = how.exec, d.s.syncsLater(d.at)
	if err := t.fill(ctx, r); err != nil {
		return vfs.Version{}, err
	}
	var was seen
	var held pins
	defer held.unpin()
	changing := changing{s: d.s}
	defer changing.drop()
	err = commit(ctx,
		func() (vfs.Staged, error) {
			if was, err = d.replaceable(ctx, name, c, how); err != nil {
				return vfs.Staged{}, err
			}
			if err := t.dress(d, name, was); err != nil {
				return vfs.Staged{}, err
			}
			ready := vfs.Staged{Grows: vfs.Effect{Bytes: t.size, Nodes: 1}, Content: t}
			if was.exists {
				ready.Grows, ready.Was = vfs.Effect{Bytes: max(0, t.size-was.attr.size)}, was.attr.info()
				ready.Keeps = d.s.keeps(ctx, was.attr)
			}
			return ready, nil
		},
		func(most vfs.Effect) (vfs.Effect, bool, error) {
			return d.place(ctx, t, name, was, c, most, &changing, &held)
		})
	if err != nil {
		return vfs.Version{}, err
	}
	if err := changing.sync(ctx); err != nil {
		return vfs.Version{}, err
	}
	return t.sum.version(), nil
}

// replaceable looks at what a Replace of name would replace.
func (d *Dir) replaceable(ctx context.Context, name string, c vfs.If, how replacing) (seen, error) {
	was, err := d.seen(ctx, name, c)
	switch {
	case err != nil:
	case was.exists:
		err = was.attr.regular()
	case how.file:
		err = vfs.NotFound
	default:
		err = checkNew(name)
	}
	if how.file {
		err = held(err)
	}
	if err != nil {
		return seen{}, err
	}
	return was, c.Check(was.exists, was.version)
}

// place puts t at name, inside Commit. Without a condition, a link or a FIFO that
// another program puts there between the last look and the change may be lost. A
// directory is never lost.
func (d *Dir) place(ctx context.Context, t *staged, name string, was seen, c vfs.If, most vfs.Effect, changing *changing, held *pins) (e vfs.Effect, again bool, err error) {
	defer d.s.lock(vfs.Join(d.at.path, name))()
	dir, err := d.s.enter(d.at)
	if err != nil {
		return e, false, err
	}
	defer d.s.leave(dir)
	from, err := d.s.enter(t.st.at)
	if err != nil {
		return e, false, t.st.lost(err)
	}
	defer d.s.leave(from)
	if err := changing.of(dir, d.at); err != nil {
		return e, false, err
	}

	now, err := dir.lstat(name)
	switch {
	case isNotExist(err) && !was.exists:
		if err := from.move(t.name, dir, name, noReplace); err != nil {
			return e, isExist(err), t.st.lost(gone(err))
		}
		t.placed = true
		return vfs.Effect{Bytes: t.size, Nodes: 1}, false, nil
	case isNotExist(err):
		return e, true, nil
	case err != nil:
		return e, false, explain(err)
	case !was.exists || now.kind != vfs.FileKind || now.perm != was.attr.perm || t.size-now.size > most.Bytes:
		return e, true, nil
	case !c.Is.IsZero() && !was.attr.unchanged(now):
		return e, true, nil
	}

	held.pin(dir, name, now)
	keep(ctx, dir, name, now)
	if c.Is.IsZero() { // rename(2) itself refuses to replace a directory
		err = from.move(t.name, dir, name, replace)
		t.placed = err == nil
	} else {
		again, err = t.exchange(from, dir, name, was)
	}
	if err != nil || again {
		return e, again, explain(err)
	}
	return vfs.Effect{Bytes: t.size - now.size}, false, nil
}
