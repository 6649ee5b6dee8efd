// Package shelf keeps contents that changes displaced, each in a file of one private directory of the host, under a name that its
// caller remembers. A file gets there by a second name for it, which a store makes (see [vfs.Keep]), or as a copy.
package shelf

import (
	"context"
	"io/fs"
	"os"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"capd/vfs"
)

// Shelf is such a directory. It is safe for concurrent use.
type Shelf struct {
	root  *os.Root
	dir   *os.File
	mount uint64 // the number of its mount, of statx(2); 0: not known
	next  atomic.Uint64
}

// OpenAmbient opens the directory at path, which is there and private, with the process's own authority. One Shelf at a time
// uses it.
func OpenAmbient(path string) (*Shelf, error) {
	root, err := os.OpenRoot(path)
	if err != nil {
		return nil, err
	}
	return In(root)
}

// In makes a Shelf of the directory root, which it takes over.
func In(root *os.Root) (*Shelf, error) {
	dir, err := root.Open(".")
	if err != nil {
		root.Close()
		return nil, err
	}
	s := &Shelf{root: root, dir: dir, mount: mountOf(dir)}
	s.next.Store(uint64(time.Now().UnixNano()))
	return s, nil
}

// Close closes the directory. What is in it stays.
func (s *Shelf) Close() error {
	s.dir.Close()
	return s.root.Close()
}

// Name returns a name that nothing on the shelf has: for a link, or for a copy.
func (s *Shelf) Name(link bool) string {
	kind := "c"
	if link {
		kind = linkPrefix
	}
	return kind + strconv.FormatUint(s.next.Add(1), 36)
}

const linkPrefix = "l"

// IsLink reports whether a name is for a link.
func IsLink(name string) bool { return strings.HasPrefix(name, linkPrefix) }

// Near reports whether a file of the mount with this number can have another name on the shelf.
func (s *Shelf) Near(mount uint64) bool { return s.mount != 0 && mount == s.mount }

// Link calls link with the directory, open as fd, which gives a file the name there.
func (s *Shelf) Link(name string, link func(fd int, name string) error) error {
	return link(int(s.dir.Fd()), name)
}

// Copy copies c to name, by sharing bytes where the file systems can. If sync is set, it is on disk when Copy returns. After an error
// nothing is there.
func (s *Shelf) Copy(ctx context.Context, name string, c vfs.Content, sync bool) (err error) {
	f, err := s.root.OpenFile(name, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	defer func() {
		if late := f.Close(); err == nil {
			err = late
		}
		if err != nil {
			s.Remove(name)
		}
	}()
	if vfs.Clone(c, f.Fd()) != nil {
		if _, err := vfs.Copy(ctx, f, c); err != nil {
			return err
		}
	}
	if sync {
		return f.Sync()
	}
	return nil
}

// Open opens what is kept as name. It answers notFound if that is nothing.
func (s *Shelf) Open(ctx context.Context, name string) (vfs.Content, error) {
	f, err := s.root.Open(name)
	if err != nil {
		return nil, vfs.Errorf(vfs.NotFound, "this content is not kept any more")
	}
	fi, err := f.Stat()
	if err != nil {
		f.Close()
		return nil, vfs.Hide(err)
	}
	return vfs.NewContent(ctx, f, fi.Size()), nil
}

// Kept says what is kept as name: its size in bytes, and how many names the file has. Once its change was made it has one.
func (s *Shelf) Kept(name string) (size int64, names uint64, ok bool) {
	fi, err := s.root.Lstat(name)
	if err != nil || !fi.Mode().IsRegular() {
		return 0, 0, false
	}
	return fi.Size(), namesOf(fi), true
}

// Remove forgets what is kept as name, if there is something.
func (s *Shelf) Remove(name string) { _ = s.root.Remove(name) }

// Sweep removes what keep does not name.
func (s *Shelf) Sweep(keep map[string]bool) error {
	all, err := fs.ReadDir(s.root.FS(), ".")
	for _, e := range all {
		if !keep[e.Name()] {
			s.Remove(e.Name())
		}
	}
	return err
}
