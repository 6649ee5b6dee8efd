package physical

import (
	"context"
	"errors"
	"strings"
	"syscall"

	"capd/vfs"
)

// Rename moves a node. If it replaces something under a condition on either, it exchanges
// source and target and then removes the old target. So for a moment the old target has the
// source's name, and a crash at that moment leaves it there.
func (d *Dir) Rename(ctx context.Context, name string, dst vfs.Dir, newName string, from, to vfs.If) error {
	if err := d.changeable(ctx); err != nil {
		return err
	}
	into, ok := dst.(*Dir)
	if !ok || into.s != d.s {
		return vfs.At("", vfs.CrossDevice)
	}
	if err := into.changeable(ctx); err != nil {
		return err
	}
	if d.s.syncsLater(d.at) && !d.s.syncsLater(into.at) {
		return vfs.At("", vfs.CrossDevice) // it may not be on disk; a copy will be
	}
	if err := checkName(name); err != nil {
		return err
	}
	r := renaming{src: d, dst: into, name: name, newName: newName, from: from, to: to}
	if r.same() {
		if _, err := d.removable(ctx, name, from); err != nil {
			return err
		}
		over, err := d.seen(ctx, name, to)
		if err != nil {
			return err
		}
		return unconditional(over, to)
	}
	if err := checkNew(newName); err != nil {
		// A name that could not be created today may still be replaced.
		if vfs.CheckName(newName) != nil || hidden(newName) || to.Is.IsZero() {
			return err
		}
	}
	if err := into.checkDepth(newName); err != nil {
		return err
	}
	err := r.run(ctx)
	if to.Over && vfs.CodeOf(err) == vfs.NotEmpty && into.swept(ctx, newName) {
		again := renaming{src: d, dst: into, name: name, newName: newName, from: from, to: to}
		err = again.run(ctx)
	}
	return err
}

type renaming struct {
	src, dst      *Dir
	name, newName string
	from, to      vfs.If
	comes         int64 // nodes that were not in the tree before
	was, over     seen  // the source and the target
	changing      changing
	pins
}

func (r *renaming) run(ctx context.Context) error {
	r.changing.s = r.src.s
	defer r.unpin()
	defer r.changing.drop()
	err := commit(ctx,
		func() (vfs.Staged, error) {
			err := r.prepare(ctx)
			return vfs.Staged{Grows: vfs.Effect{Nodes: r.comes}, Keeps: r.over.exists && r.src.s.keeps(ctx, r.over.attr)}, err
		},
		func(vfs.Effect) (vfs.Effect, bool, error) {
			e, again, err := r.commit(ctx)
			if err == nil && !again {
				e.Nodes += r.comes
			}
			return e, again, err
		})
	if err != nil {
		return err
	}
	return r.changing.sync(ctx)
}

func (r *renaming) oldPath() string { return vfs.Join(r.src.at.path, r.name) }
func (r *renaming) newPath() string { return vfs.Join(r.dst.at.path, r.newName) }

// same reports whether source and target are one place.
func (r *renaming) same() bool {
	return r.oldPath() == r.newPath() && r.src.at.id.same(r.dst.at.id)
}

func (r *renaming) prepare(ctx context.Context) (err error) {
	if r.was, err = r.src.removable(ctx, r.name, r.from); err != nil {
		return err
	}
	a := r.was.attr
	if a.kind == vfs.DirKind && (r.newPath() == r.oldPath() || strings.HasPrefix(r.newPath(), r.oldPath()+"/")) {
		return vfs.ErrIntoItself
	}
	if r.over, err = r.dst.seen(ctx, r.newName, r.to); err != nil {
		return err
	}
	if r.over.exists {
		if err := r.to.Displaces(r.over.attr.kind, a.kind); err != nil {
			return vfs.At("", err)
		}
	}
	return r.to.Check(r.over.exists && r.over.attr.kind == vfs.FileKind, r.over.version)
}

// commit renames, inside Commit.
func (r *renaming) commit(ctx context.Context) (e vfs.Effect, again bool, err error) {
	s := r.src.s
	if r.was.attr.kind == vfs.DirKind {
		defer s.lockDirectory(r.oldPath(), r.newPath())()
	} else {
		defer s.lock(r.oldPath(), r.newPath())()
	}
	src, err := s.enter(r.src.at)
	if err != nil {
		return e, false, err
	}
	defer s.leave(src)
	dst, err := s.enter(r.dst.at)
	if err != nil {
		return e, false, err
	}
	defer s.leave(dst)
	if err := r.changing.of(dst, r.dst.at); err != nil { // synced first
		return e, false, err
	}
	if err := r.changing.of(src, r.src.at); err != nil {
		return e, false, err
	}
	now, err := src.lstat(r.name)
	if err != nil && !isNotExist(err) {
		return e, false, explain(err)
	}
	if err != nil || now.kind != r.was.attr.kind || !r.from.Is.IsZero() && !r.was.attr.unchanged(now) {
		return e, true, nil
	}
	switch {
	case r.over.exists && r.over.attr.kind == vfs.DirKind:
		return r.replaceDir(src, dst)
	case r.over.exists:
		return r.replace(ctx, src, dst)
	}
	if err := src.move(r.name, dst, r.newName, noReplace); err != nil {
		if errors.Is(err, syscall.EINVAL) {
			return e, false, vfs.ErrIntoItself
		}
		return e, isExist(err) || isNotExist(err), gone(err)
	}
	if !r.moved(dst, r.newName) {
		if err := dst.move(r.newName, src, r.name, noReplace); err != nil {
			return e, false, errKeepsChanging
		}
		return e, true, nil
	}
	if now.kind == vfs.DirKind {
		s.moved(r.oldPath(), r.newPath())
	}
	return e, false, nil
}

// moved reports whether the node called name in dir is the source that was seen.
func (r *renaming) moved(dir directory, name string) bool {
	if r.from.Is.IsZero() {
		a, err := dir.lstat(name)
		return err != nil || a.kind == r.was.attr.kind
	}
	_, ok := displaced(dir, name, r.was)
	return ok
}

// replaceDir puts the source in place of an empty directory.
func (r *renaming) replaceDir(src, dst directory) (e vfs.Effect, again bool, err error) {
	err = src.move(r.name, dst, r.newName, replace)
	switch {
	case err == nil:
		r.src.s.moved(r.oldPath(), r.newPath())
		return vfs.Effect{Nodes: -1}, false, nil
	case errors.Is(err, syscall.EINVAL):
		return e, false, vfs.ErrIntoItself
	case isExist(err):
		return e, false, vfs.NotEmpty
	}
	return e, errors.Is(err, syscall.ENOTDIR) || isNotExist(err), explain(err)
}

// replace puts the source in place of a file or a link. It exchanges the two if there is a
// condition that only what comes of that shows.
func (r *renaming) replace(ctx context.Context, src, dst directory) (e vfs.Effect, again bool, err error) {
	now, err := dst.lstat(r.newName)
	if err != nil || !r.stands(now) {
		return e, err == nil || isNotExist(err), explain(err)
	}
	r.pin(dst, r.newName, now)
	if now.same(r.was.attr) { // two names of one file, and rename(2) would do nothing
		if !r.to.Over {
			return e, false, vfs.At("", vfs.Exists)
		}
		return growth(now, -1), false, explain(src.unlink(r.name))
	}
	keep(ctx, dst, r.newName, now)
	err = errNoExchange
	if r.from.Is != r.to.Is || !r.from.Is.IsZero() || r.to.NoFile {
		err = src.move(r.name, dst, r.newName, exchange)
	}
	if err == errNoExchange {
		if _, ok := r.displaced(dst, r.newName); !ok {
			return e, true, nil
		}
		if err := src.move(r.name, dst, r.newName, replace); err != nil {
			kindChanged := errors.Is(err, syscall.ENOTDIR) || errors.Is(err, syscall.EISDIR)
			return e, isNotExist(err) || kindChanged, explain(err)
		}
		return growth(now, -1), false, nil
	}
	if err != nil {
		return e, isNotExist(err), explain(err)
	}
	old, ok := r.displaced(src, r.name)
	if !ok || !r.moved(dst, r.newName) {
		if err := src.move(r.name, dst, r.newName, exchange); err != nil {
			return e, false, errKeepsChanging
		}
		return e, true, nil
	}
	err = r.changing.first() // otherwise a power cut might leave the source nowhere
	if err == nil {
		err = src.unlink(r.name)
	}
	if err != nil && !isNotExist(err) {
		src.move(r.name, dst, r.newName, exchange)
		return e, false, explain(err)
	}
	return growth(old, -1), false, nil
}

// stands reports whether now, at the target, is what was seen there. Without a condition on
// its content, anything of that kind is.
func (r *renaming) stands(now attr) bool {
	if r.to.Is.IsZero() {
		return now.kind == r.over.attr.kind
	}
	return r.over.attr.unchanged(now)
}

// displaced reports whether the node called name in dir is the target that was seen.
func (r *renaming) displaced(dir directory, name string) (attr, bool) {
	if !r.to.Is.IsZero() {
		return displaced(dir, name, r.over)
	}
	a, err := dir.lstat(name)
	return a, err == nil && a.kind == r.over.attr.kind
}
