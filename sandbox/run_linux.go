package sandbox

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strconv"

	"capd/vfs"
)

// Run runs c and returns the program's exit code, or 128 and the signal that
// ended it. It returns when every process of the sandbox is gone and what was
// private to the run is removed; they all end with the program, when ctx is
// done, and when this process dies.
//
// It answers the cause of ctx's end; limit when memory, disk or time were used
// up; notFound or denied when the program cannot be started; invalid for a
// command that never can be; unsupported when bubblewrap or Landlock is missing.
// With an error the exit code says nothing.
//
// Of Stdin, Stdout and Stderr, terminals are handed to the program itself;
// anything else is copied. Run does not wait for a Read of Stdin that blocks.
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
	if err := layers.enough(c.WithoutLandlock); err != nil {
		return -1, err
	}
	u := chooseUser()
	private, err := makePrivate(c.Scratch, u, c.Network)
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
	args, err := arguments(c, u, private)
	if err != nil {
		return -1, err
	}
	growth, err := newDisk(c.Limits.Disk, c.Tree, private)
	if err != nil {
		return -1, err
	}
	r := run{Command: c, user: u, disk: growth, spec: spec{
		Args: c.Args, Env: environment(c, os.Getenv), Dir: path.Join(TreePath, c.Dir),
		UID: u.uid, GID: u.gid, Switch: u.switched, Limits: c.Limits, Landlock: layers.Landlock > 0,
	}}
	return r.run(ctx, bwrap, args)
}

// isDir answers notFound or notDir unless a directory is at path, and not a link
// to one.
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

// Below a run's directory in Scratch.
const (
	privateHome  = "home"
	privateCache = "cache"
	privateTmp   = "tmp"
	privateEtc   = "etc"
)

// makePrivate makes a run's own directory in scratch and returns it.
func makePrivate(scratch string, u user, network bool) (dir string, err error) {
	dir, err = os.MkdirTemp(scratch, "run-")
	if err != nil {
		return "", err
	}
	for _, name := range []string{privateHome, privateCache, privateTmp, privateEtc} {
		if err = os.Mkdir(filepath.Join(dir, name), 0o700); err != nil {
			break
		}
	}
	if err == nil {
		err = makeEtc(filepath.Join(dir, privateEtc), u, network)
	}
	if err == nil {
		err = u.own(dir)
	}
	if err != nil {
		return "", errors.Join(err, remove(dir))
	}
	return dir, nil
}

// arguments are bubblewrap's for c, except for what it starts.
func arguments(c Command, u user, private string) (mounts, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	m := namespaces(u, c.Network)
	m.system()
	m.etc(filepath.Join(private, privateEtc), c.Network)
	m.give(filepath.Join(private, privateHome), homePath)
	m.give(filepath.Join(private, privateCache), cachePath)
	m.give(filepath.Join(private, privateTmp), tmpPath)
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
