package physical

import (
	"cmp"
	"errors"
	"io"
	"io/fs"
	"os"
	"strings"
	"syscall"

	"capd/hostfile"
	"capd/vfs"
)

// rootHost confines with os.Root, which walks one segment at a time. It never reaches
// anything outside. But it recognises a mount only by its device number, and a name
// that is exchanged for a link at the right moment may lead to another place inside the
// root. Only the walk differs from kernelHost.
type rootHost struct {
	top *os.Root
	dev uint64
}

func openRootHost(top *os.Root) (host, error) {
	a, err := (&rootDir{h: &rootHost{}, root: top}).attr()
	if err != nil {
		return nil, err
	}
	return &rootHost{top: top, dev: a.dev}, nil
}

func (h *rootHost) confinement() string { return "best-effort" }
func (h *rootHost) close()              {} // the store closes top

// A host of this kind may always have to wait. It keeps no file open, since it could
// not tell for certain that the file is still at its path.
func (h *rootHost) near(vfs.Keep) bool                { return false }
func (h *rootHost) tries() bool                       { return false }
func (h *rootHost) kept(place, string, bool) reader   { return nil }
func (h *rootHost) keep(string, reader, attr, uint64) {}
func (h *rootHost) mark() uint64                      { return 0 }
func (h *rootHost) forget(string)                     {}
func (h *rootHost) forgetBelow(string)                {}
func (h *rootHost) changed(attr)                      {}

func (h *rootHost) enter(p place, try bool) (directory, error) {
	if try {
		return nil, vfs.ErrWouldBlock
	}
	d := &rootDir{h: h, root: h.top}
	if p.path == "" {
		return d, nil
	}
	var id ident
	for name := range strings.SplitSeq(p.path, "/") {
		next, nextID, err := d.child(name)
		d.release()
		if err != nil {
			switch vfs.CodeOf(explain(err)) {
			case vfs.NotFound, vfs.NotDir, vfs.NotRegular:
				return nil, vfs.Stale
			}
			return nil, err
		}
		d, id = next, nextID
	}
	if !id.same(p.id) {
		d.release()
		return nil, vfs.Stale
	}
	return d, nil
}

// rootDir is an open directory. os.Root renames and links only within one Root, so a
// move uses paths from the top.
type rootDir struct {
	h     *rootHost
	root  *os.Root
	path  string
	owned bool
}

func (d *rootDir) release() {
	if d.owned {
		d.owned = false
		d.root.Close()
	}
}

// itself runs f on the open directory.
func (d *rootDir) itself(f func(*os.File) error) error {
	self, err := d.root.Open(".")
	if err != nil {
		return err
	}
	defer self.Close()
	return f(self)
}

func (d *rootDir) attr() (a attr, err error) {
	err = d.itself(func(f *os.File) (err error) { a, err = attrOfFile(f); return })
	return a, err
}

func (d *rootDir) ident() (id ident, err error) {
	err = d.itself(func(f *os.File) (err error) { id, err = identOfFile(f); return })
	return id, err
}

func (d *rootDir) lstat(name string) (attr, error) {
	fi, err := d.root.Lstat(name)
	if err != nil {
		return attr{}, err
	}
	a := attrOfInfo(fi)
	if a.dev != d.h.dev {
		return attr{}, vfs.CrossDevice
	}
	return a, nil
}

// child opens the directory called name. It follows no link.
func (d *rootDir) child(name string) (*rootDir, ident, error) {
	a, err := d.lstat(name)
	if err != nil {
		return nil, ident{}, err
	}
	if err := a.directory(); err != nil {
		return nil, ident{}, err
	}
	root, err := d.root.OpenRoot(name)
	if code := vfs.CodeOf(explain(err)); code == vfs.NotDir || code == vfs.NotRegular {
		err = vfs.Stale // exchanged a moment ago
	}
	if err != nil {
		return nil, ident{}, err
	}
	c := &rootDir{h: d.h, root: root, path: vfs.Join(d.path, name), owned: true}
	var id ident
	err = c.itself(func(f *os.File) error {
		b, err := attrOfFile(f)
		if err == nil && !a.same(b) {
			err = vfs.Stale
		}
		if err == nil {
			id, err = identOfFile(f)
		}
		return err
	})
	if err != nil {
		c.release()
		return nil, ident{}, err
	}
	return c, id, nil
}

func (d *rootDir) look(name string) (attr, ident, error) {
	a, err := d.lstat(name)
	if err != nil || a.kind != vfs.DirKind {
		return a, ident{}, err
	}
	c, id, err := d.child(name)
	if err != nil {
		return attr{}, ident{}, err
	}
	c.release()
	return a, id, nil
}

// below leaves it to the caller's walk: os.Root follows links.
func (d *rootDir) below(string) (directory, ident, error) { return nil, ident{}, vfs.ErrStepwise }

func (d *rootDir) sub(name string) (directory, ident, error) {
	c, id, err := d.child(name)
	if err != nil {
		return nil, ident{}, err
	}
	return c, id, nil
}

func (d *rootDir) open(name string, flag int) (*os.File, attr, error) {
	for try := 0; ; try++ {
		f, a, err := d.openOnce(name, flag)
		if err != vfs.Busy || try == again {
			return f, a, err
		}
	}
}

// openOnce answers vfs.Busy itself if another file, or a link, got the name between the
// lookup and the opening.
func (d *rootDir) openOnce(name string, flag int) (*os.File, attr, error) {
	before, err := d.lstat(name)
	if err != nil {
		return nil, attr{}, err
	}
	if err := before.regular(); err != nil {
		return nil, attr{}, err
	}
	f, err := d.root.OpenFile(name, flag|hostfile.NeverWait, 0)
	if err != nil {
		return nil, attr{}, err
	}
	a, err := attrOfFile(f)
	if err == nil {
		err = a.regular()
	}
	if err == nil && !a.same(before) {
		err = vfs.Busy
	}
	if err != nil {
		f.Close()
		return nil, attr{}, err
	}
	return f, a, nil
}

// openSole looks at the file before and after opening it. That is sufficient where
// times of change show every change.
func (d *rootDir) openSole(name string, flag int) (*os.File, attr, error) {
	for range again {
		found, err := d.lstat(name)
		if err == nil {
			err = sole(found)
		}
		if err != nil {
			return nil, attr{}, err
		}
		f, a, err := d.open(name, flag)
		if err != nil {
			return nil, attr{}, err
		}
		if soleBetween(found, a) {
			return f, a, nil
		}
		f.Close()
	}
	return nil, attr{}, errKeepsChanging
}

func (d *rootDir) read(name string) (reader, attr, error) {
	f, a, err := d.open(name, os.O_RDONLY)
	if err != nil {
		return nil, attr{}, err
	}
	return fileReader{f}, a, nil
}

// fileReader is a reader that may always wait.
type fileReader struct{ *os.File }

func (r fileReader) closeSoon() { r.Close() }

func (fileReader) tryReadAt([]byte, int64) (int, error) { return 0, vfs.ErrWouldBlock }

func (d *rootDir) readlink(name string) (string, error) { return d.root.Readlink(name) }

func (d *rootDir) entries(each func([]vfs.Entry) error) error {
	return d.itself(func(f *os.File) error {
		for {
			some, err := f.ReadDir(4096)
			if err == io.EOF {
				return nil
			}
			if err != nil {
				return err
			}
			all := make([]vfs.Entry, 0, len(some))
			for _, e := range some {
				all = append(all, vfs.Entry{Name: e.Name(), Kind: kindOf(e.Type())})
			}
			if err := each(all); err != nil {
				return err
			}
		}
	})
}

func (d *rootDir) pin(string) func() { return func() {} }

func (d *rootDir) create(name string, perm os.FileMode) (*os.File, error) {
	return d.root.OpenFile(name, os.O_RDWR|os.O_CREATE|os.O_EXCL, perm)
}

func (d *rootDir) mkdir(name string, perm os.FileMode) error { return d.root.Mkdir(name, perm) }

func (d *rootDir) symlink(target, name string) error { return d.root.Symlink(target, name) }

// link is not possible: os.Root links within itself alone.
func (d *rootDir) link(string, int, string) error { return errors.ErrUnsupported }

func (d *rootDir) unlink(name string) error {
	a, err := d.lstat(name)
	if err != nil {
		return err
	}
	if a.kind == vfs.DirKind {
		return vfs.IsDir
	}
	return d.root.Remove(name)
}

func (d *rootDir) rmdir(name string) error {
	a, err := d.lstat(name)
	if err != nil {
		return err
	}
	if err := a.directory(); err != nil {
		return err
	}
	return d.root.Remove(name)
}

// move uses a hard link to make noReplace atomic for files. For other nodes, and
// without hard links, it checks beforehand.
func (d *rootDir) move(name string, dst directory, newName string, how how) error {
	to := dst.(*rootDir)
	from, target := vfs.Join(d.path, name), vfs.Join(to.path, newName)
	if how == exchange {
		return errNoExchange
	}
	if how == noReplace {
		a, err := d.lstat(name)
		if err != nil {
			return err
		}
		if a.kind == vfs.FileKind {
			err := d.h.top.Link(from, target)
			if err == nil {
				if err = arrived(d.path, to); err == nil {
					err = d.h.top.Remove(from)
				}
				if err != nil {
					d.h.top.Remove(target)
				}
				return err
			}
			if errors.Is(err, fs.ErrExist) || errors.Is(err, fs.ErrNotExist) {
				return err
			}
		}
		if _, err := to.root.Lstat(newName); err == nil {
			return fs.ErrExist
		}
	}
	err := d.h.top.Rename(from, target)
	if how == replace && errors.Is(err, fs.ErrExist) {
		return d.moveOverDir(name, to, newName)
	}
	return err
}

// moveOverDir moves a directory over an empty one, which os.Root.Rename does not do: it
// removes that first, and makes it again if the move fails.
func (d *rootDir) moveOverDir(name string, to *rootDir, newName string) error {
	if a, err := d.lstat(name); err != nil || a.kind != vfs.DirKind {
		return cmp.Or(err, error(syscall.EISDIR))
	}
	if err := to.rmdir(newName); err != nil {
		return err
	}
	err := d.h.top.Rename(vfs.Join(d.path, name), vfs.Join(to.path, newName))
	if err != nil {
		_ = to.mkdir(newName, 0o777)
	}
	return err
}

func (d *rootDir) self() (*os.File, error) { return d.root.Open(".") }

func kindOf(m fs.FileMode) vfs.Kind {
	switch m.Type() {
	case 0:
		return vfs.FileKind
	case fs.ModeDir:
		return vfs.DirKind
	case fs.ModeSymlink:
		return vfs.LinkKind
	}
	return vfs.Other
}
