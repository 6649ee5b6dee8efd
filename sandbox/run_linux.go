package sandbox

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"capd/hostfile"
	"capd/vfs"
)

// Run runs c and returns the program's exit code, or 128 plus the signal that ended it.
// It returns when every process of the sandbox has ended and the run's private
// directories were removed. All processes end when the program ends, when ctx is done,
// and when this process dies.
//
// Run answers the cause of ctx's end; limit when memory, disk or time were used up;
// notFound or denied when the program cannot be started; invalid for a command that can
// never run; unsupported when bubblewrap or Landlock is missing. If there is an error,
// ignore the exit code.
//
// If Stdin, Stdout or Stderr is a terminal, the program gets the terminal itself.
// Anything else is copied. Run does not wait for a Read of Stdin that blocks.
func Run(ctx context.Context, c Command) (exit int, err error) {
	if c, err = c.check(); err != nil {
		return -1, err
	}
	if err := errors.Join(isDir(c.Tree), isDir(c.Scratch)); err != nil {
		return -1, err
	}
	bwrap, err := findBwrap()
	if err != nil {
		return -1, err
	}
	layers := Confinement{Landlock: landlockABI()}
	if err := layers.enough(); err != nil {
		return -1, err
	}
	u := chooseUser()
	private, err := makePrivate(c, u)
	if err != nil {
		return -1, err
	}
	defer func() {
		if gone := remove(private); gone != nil && err == nil {
			err = gone
		}
	}()
	if err := u.own(c.Tree); err != nil {
		return -1, err
	}
	dirs := []string{c.Tree, private}
	for _, cache := range c.Caches {
		if err := errors.Join(isDir(cache.Dir), u.own(cache.Dir)); err != nil {
			return -1, fmt.Errorf("the cache %s cannot be used, and may be removed: %w", vfs.Printable(cache.Dir), err)
		}
		dirs = append(dirs, cache.Dir)
	}
	args, err := arguments(c, u, private)
	if err != nil {
		return -1, err
	}
	growth, err := newDisk(c.Limits.Disk, dirs...)
	if err != nil {
		return -1, err
	}
	r := run{Command: c, user: u, disk: growth, spec: spec{
		Args: c.Args, Env: environment(c, os.Getenv), Dir: path.Join(TreePath, c.Dir),
		UID: u.uid, GID: u.gid, Switch: u.switched, Limits: c.Limits,
	}}
	return r.run(ctx, bwrap, args)
}

// isDir answers notFound or notDir unless a directory, and not a link to one, is at
// path.
func isDir(path string) error {
	info, err := os.Lstat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return vfs.Errorf(vfs.NotFound, "there is no directory %s", vfs.Printable(path))
	case err == nil && !info.IsDir():
		return vfs.Errorf(vfs.NotDir, "%s is not a directory", vfs.Printable(path))
	}
	return err
}

// Names in a run's directory in Scratch.
const (
	privateHome  = "home"
	privateCache = "cache"
	privateTmp   = "tmp"
	privateEtc   = "etc"
)

// ofPrivate returns the host's path, in the private directory, of a path of the
// sandbox.
func ofPrivate(private, at string) string {
	if within(at, HomePath) {
		return filepath.Join(private, privateHome, strings.TrimPrefix(at, HomePath))
	}
	return filepath.Join(private, privateCache, strings.TrimPrefix(at, CachePath))
}

// makePrivate makes a run's own directory in its scratch directory and returns it.
func makePrivate(c Command, u user) (dir string, err error) {
	dir, err = os.MkdirTemp(c.Scratch, "run-")
	if err != nil {
		return "", err
	}
	for _, name := range []string{privateHome, privateCache, privateTmp, privateEtc} {
		if err = os.Mkdir(filepath.Join(dir, name), 0o700); err != nil {
			break
		}
	}
	for _, cache := range c.Caches {
		if err == nil {
			err = os.MkdirAll(ofPrivate(dir, cache.At), 0o700)
		}
	}
	if err == nil {
		err = linkCaches(filepath.Join(dir, privateHome), c.Caches)
	}
	if err == nil {
		err = makeEtc(filepath.Join(dir, privateEtc), u, c.Network)
	}
	if err == nil {
		err = u.own(dir)
	}
	if err != nil {
		return "", errors.Join(err, remove(dir))
	}
	return dir, nil
}

// linkCaches makes links in home, for programs that look for caches there and not in
// the environment. A cache below CachePath that is kept is linked to its own place.
func linkCaches(home string, caches []Cache) error {
	for name, to := range map[string]string{".cache": CachePath, ".npm": npmPath, ".cargo": cargoPath} {
		lasts := func(c Cache) bool { return within(c.At, to) }
		if to != CachePath && !slices.ContainsFunc(caches, lasts) {
			continue
		}
		if err := os.Symlink(to, filepath.Join(home, name)); err != nil && !errors.Is(err, fs.ErrExist) { // a cache of HomePath may be there
			return err
		}
	}
	return nil
}

// arguments returns bubblewrap's arguments for c, without the program that it starts.
func arguments(c Command, u user, private string) (mounts, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	m := namespaces(u, c.Network)
	m.system()
	m.etc(filepath.Join(private, privateEtc), c.Network)
	m.give(filepath.Join(private, privateHome), HomePath)
	m.give(filepath.Join(private, privateCache), CachePath)
	m.give(filepath.Join(private, privateTmp), tmpPath)
	for _, cache := range c.Caches {
		m = append(m, "--bind", cache.Dir, cache.At)
	}
	m = append(m, "--symlink", tmpPath, "/var/tmp")
	if err := m.bind(c.Bind); err != nil {
		return nil, err
	}
	if err := m.tree(c.Tree, c.ReadOnly); err != nil {
		return nil, err
	}
	m.show(self, initPath)
	return append(m, "--remount-ro", "/", "--info-fd", strconv.Itoa(infoFD)), nil
}

// remove removes dir and everything below it, whatever a program left there. Only this
// package may name things in dir's parent.
func remove(dir string) error {
	parent, err := os.OpenRoot(filepath.Dir(dir))
	if err != nil {
		return err
	}
	defer parent.Close()
	if err := hostfile.Erase(parent, filepath.Base(dir)); err != nil {
		return fmt.Errorf("remove %s: %w", dir, err)
	}
	return nil
}
