package git

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"strings"

	"github.com/go-git/go-git/v5/plumbing"

	"capd/hostfile"
	"capd/vfs"
)

// update changes a ref from from to to, under git's own lock. A zero from means that
// the ref must not exist. It answers conflict when the ref has another value, and busy
// while another process holds the lock. line is added to the ref's log, if it has one.
func (r *refs) update(name string, from, to plumbing.Hash, line string) (err error) {
	lock, err := r.lock(name)
	if err != nil {
		return err
	}
	defer func() {
		lock.Close()
		if err != nil {
			_ = r.root.Remove(name + lockSuffix)
		}
	}()
	now, symbolic, err := r.read(name)
	switch {
	case errors.Is(err, vfs.NotFound):
		if err := r.vacant(name); err != nil {
			return err
		}
	case err != nil:
		return ambient(err)
	case symbolic != "":
		return vfs.Errorf(vfs.Invalid, "%s points to another ref; name that one", name)
	}
	if now != from {
		return conflict(name, now)
	}
	if _, err := lock.WriteString(to.String() + "\n"); err != nil {
		return ambient(err)
	}
	if err := lock.Sync(); err != nil {
		return ambient(err)
	}
	if err := lock.Close(); err != nil {
		return ambient(err)
	}
	if err := r.log(name, fmt.Sprintf("%s %s %s\n", from, to, line)); err != nil {
		return ambient(err)
	}
	if r.isDir(name) { // of refs that were removed
		r.removeEmpty(name)
	}
	if err := r.root.Rename(name+lockSuffix, name); err != nil {
		if r.isDir(name) {
			return vfs.Errorf(vfs.Conflict, "there are refs below %s; choose another name", name)
		}
		return ambient(err)
	}
	return nil
}

func conflict(name string, now plumbing.Hash) error {
	if now.IsZero() {
		return vfs.Errorf(vfs.Conflict, "%s is not there; nothing was committed", name)
	}
	return vfs.Errorf(vfs.Conflict, "%s has moved to %s, and nothing was committed; commit to another branch, and merge it there", name, now)
}

// lockTries is how often a directory is made again after another process removed it as
// empty.
const lockTries = 3

const lockSuffix = ".lock"

// isDir reports whether the ref's name is a directory. A link to one does not count.
func (r *refs) isDir(name string) bool {
	info, err := r.root.Lstat(name)
	return err == nil && info.IsDir()
}

// lock makes the lock file that stops other gits from changing a ref.
func (r *refs) lock(name string) (lock *os.File, err error) {
	for range lockTries {
		if err = r.root.MkdirAll(path.Dir(name), 0o777); errors.Is(err, fs.ErrExist) {
			err = errNotDir
		}
		if err != nil {
			break
		}
		lock, err = r.root.OpenFile(name+lockSuffix, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o666)
		if !errors.Is(err, fs.ErrNotExist) {
			break
		}
	}
	switch {
	case errors.Is(err, errNotDir):
		return nil, vfs.Errorf(vfs.Conflict, "a ref is in the way of this one; choose another name")
	case errors.Is(err, fs.ErrExist):
		return nil, vfs.Errorf(vfs.Busy, "another git holds the lock of this ref; try again, or remove %s when none runs", r.common.full(name+lockSuffix))
	case err != nil:
		return nil, ambient(err)
	}
	return lock, nil
}

// vacant answers conflict when a new ref would be above or below another.
func (r *refs) vacant(name string) error {
	packed, err := r.readPacked()
	if err != nil {
		return ambient(err)
	}
	for other := range packed {
		if strings.HasPrefix(other, name+"/") || strings.HasPrefix(name, other+"/") {
			return vfs.Errorf(vfs.Conflict, "%s is in the way of %s; choose another name", other, name)
		}
	}
	return nil
}

// removeEmpty removes a directory in which there are only empty directories.
func (r *refs) removeEmpty(dir string) {
	entries, _ := hostDir{path: r.common.path, root: r.root}.readDir(dir)
	for _, e := range entries {
		if e.IsDir() {
			r.removeEmpty(path.Join(dir, e.Name()))
		}
	}
	_ = r.root.Remove(dir)
}

// log appends to the ref's log, if there is one. In a repository with a working tree it
// creates the log of a branch, as git does.
func (r *refs) log(name, line string) error {
	at := path.Join("logs", name)
	flags := os.O_APPEND | os.O_WRONLY | hostfile.NeverWait
	if !r.bare {
		flags |= os.O_CREATE
		if err := r.root.MkdirAll(path.Dir(at), 0o777); err != nil {
			return err
		}
	}
	if info, err := r.root.Stat(at); err == nil && !info.Mode().IsRegular() {
		return flawed(vfs.Corrupt, "%s is no regular file", r.common.full(at))
	}
	f, err := r.root.OpenFile(at, flags, 0o666)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, errNotDir) {
		return nil
	} else if err != nil {
		return err
	}
	_, err = f.WriteString(line)
	return errors.Join(err, f.Close())
}

// checkedOut reports whether a working tree has a branch checked out. Its files would
// appear changed if the branch moved.
func (r *refs) checkedOut(name string) (bool, error) {
	worktrees, err := r.common.readDir("worktrees")
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return false, ambient(err)
	}
	var heads []string
	if !r.bare {
		heads = append(heads, "HEAD")
	}
	for _, w := range worktrees {
		heads = append(heads, path.Join("worktrees", w.Name(), "HEAD"))
	}
	for _, head := range heads {
		text, err := r.common.readSmall(head)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		} else if err != nil {
			return false, ambient(err)
		}
		if _, symbolic, err := parseRef(text); err == nil && symbolic == name {
			return true, nil
		}
	}
	return false, nil
}
