package server

import (
	"context"
	"errors"
	"os"
	"path/filepath"

	"capd/backend/memory"
	"capd/state"
	"capd/vfs"
	"capd/vfs/overlay"
	"capd/virtualfs"
)

// upper opens what an overlay, or a writable git mount, writes to: a directory with upper=DIR, a place in
// the state directory with keep, or memory.
func (s stores) upper(ctx context.Context, u *virtualfs.URL) (*virtualfs.Upper, error) {
	if err := checkUpper(u); err != nil {
		return nil, err
	}
	l, err := upperLimits(u)
	if err != nil {
		return nil, err
	}
	if dir := u.Query.Get("upper"); dir != "" {
		return s.upperDir(dir)
	}
	if u.Flag("keep") {
		return openKept(ctx, s.st, u, l)
	}
	return &virtualfs.Upper{Tree: memory.New(l).Root()}, nil
}

// upperDir opens dir for one overlay at a time. It makes dir if it is missing, and removes it again if
// the overlay may not write there.
func (s stores) upperDir(dir string) (*virtualfs.Upper, error) {
	_, missing := os.Lstat(dir)
	if err := state.MakeDir(dir); err != nil {
		return nil, vfs.Errorf(vfs.Invalid, "%s cannot be made: %v", vfs.Printable(dir), state.Reason(err))
	}
	store, err := openPhysical(dir)
	if err != nil {
		return nil, err
	}
	err = apart(s.private(), dir, store)
	var lock *os.File
	if err == nil {
		lock, err = lockUpper(dir)
	}
	if err != nil {
		store.Close()
		return nil, err
	}
	store, end, err := s.directories.reserve(store, dir)
	if err != nil {
		_ = os.Remove(lock.Name())
		if missing != nil {
			_ = os.Remove(dir)
		}
		return nil, errors.Join(err, lock.Close())
	}
	return &virtualfs.Upper{Tree: store.Root(), Kept: true, Close: func(bool) error { return errors.Join(end(), lock.Close()) }}, nil
}

// lockUpper takes dir for one overlay, until the file that it returns is closed or the process ends.
// It answers busy when another overlay, of this or any other process, writes there.
func lockUpper(dir string) (*os.File, error) {
	f, err := state.Take(filepath.Join(dir, overlay.LockName))
	switch {
	case err == vfs.Busy:
		return nil, vfs.Errorf(vfs.Busy, "another mounted overlay, of this host or of another, uses %s; unmount it, or name another directory with upper=", vfs.Printable(dir))
	case err != nil:
		return nil, vfs.Errorf(vfs.Invalid, "nothing can be written in %s: %v", vfs.Printable(dir), state.Reason(err))
	}
	return f, nil
}
