package physical

import (
	"io"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"capd/vfs"
)

// openFile is a descriptor of a regular file, open for reading, that readers and the
// cache share. The last one closes it.
type openFile struct {
	h    *kernelHost
	fd   int
	attr attr
	refs atomic.Int32
}

func newOpenFile(h *kernelHost, fd int, a attr) *openFile {
	f := &openFile{h: h, fd: fd, attr: a}
	f.refs.Store(1)
	return f
}

func (f *openFile) retain() *openFile {
	f.refs.Add(1)
	return f
}

func (f *openFile) Close() error {
	if f.refs.Add(-1) > 0 {
		return nil
	}
	return unix.Close(f.fd)
}

// closeSoon is Close for a caller that must not wait.
func (f *openFile) closeSoon() { f.h.open.closeSoon(f) }

// ReadAt implements io.ReaderAt.
func (f *openFile) ReadAt(p []byte, off int64) (int, error) {
	return f.readFully(p, off, func(p []byte, off int64) (int, error) { return unix.Pread(f.fd, p, off) })
}

// tryReadAt reads what is in memory; see preadv2(2), RWF_NOWAIT. A file system without
// support is not asked again.
func (f *openFile) tryReadAt(p []byte, off int64) (int, error) {
	n, err := f.readFully(p, off, func(p []byte, off int64) (int, error) {
		return unix.Preadv2(f.fd, [][]byte{p}, off, unix.RWF_NOWAIT)
	})
	switch err {
	case unix.EOPNOTSUPP, unix.ENOSYS:
		f.h.waits.Store(true)
		return n, vfs.ErrWouldBlock
	case unix.EAGAIN:
		return n, vfs.ErrWouldBlock
	}
	return n, err
}

func (f *openFile) readFully(p []byte, off int64, read func([]byte, int64) (int, error)) (n int, err error) {
	for n < len(p) {
		m, err := read(p[n:], off+int64(n))
		switch {
		case err == unix.EINTR:
		case err != nil:
			return n, err
		case m == 0:
			return n, io.EOF
		default:
			n += m
		}
	}
	return n, nil
}

// kept looks up path again, as every operation does, and compares the result with the
// kept file. Usually that also shows that the directory on the way is the same; see
// docs/decisions/0008. Where it does not, kept enters the directory.
func (h *kernelHost) kept(in place, path string, try bool) reader {
	if try && h.waits.Load() {
		return nil
	}
	f := h.open.file(path)
	if f == nil {
		return nil
	}
	err := h.confirm(in, path, f, try)
	if err == nil {
		return f
	}
	f.closeSoon()
	if err != vfs.ErrWouldBlock {
		h.open.drop(path, f)
	}
	return nil // whoever opens it finds out what is there
}

// confirm returns nil if f, kept for path in in, is the file that is there. If the
// attributes do not tell, it enters the directory.
func (h *kernelHost) confirm(in place, path string, f *openFile, try bool) error {
	fd, err := h.topFor(try).descend(path, unix.O_PATH|unix.O_NOFOLLOW)
	if err != nil {
		return err
	}
	a, err := h.describeClosing(fd)
	switch {
	case err != nil:
		return err
	case !a.vouches(f.attr):
		return vfs.Stale
	case h.tells:
		return nil
	}
	d, err := h.enter(in, try)
	if err == nil {
		d.release()
	}
	return err
}

// describeClosing returns the attributes of fd's file, and closes fd.
func (h *kernelHost) describeClosing(fd int) (attr, error) {
	defer unix.Close(fd)
	return h.describe(fd)
}

// vouches reports whether a and b, found at the same path at two times, are the same
// file with the same permissions. Where h.tells is set, it also shows that the file was
// at that path all the time: it has one name, and adding, removing or moving a name, or
// changing permissions, sets the time of change.
func (a attr) vouches(b attr) bool { return a.nlink == 1 && a.unchanged(b) }

// keep keeps a file if later changes of its names will show: it has one name, its file
// system is known, and its time of change is past.
func (h *kernelHost) keep(path string, r reader, a attr, mark uint64) {
	left, ever := a.settlesIn(time.Now())
	if f, ok := r.(*openFile); ok && h.local && a.nlink == 1 && ever && left <= 0 {
		h.open.keepFile(path, f, mark)
	}
}

func (h *kernelHost) mark() uint64            { return h.open.mark() }
func (h *kernelHost) forget(path string)      { h.open.forget(path) }
func (h *kernelHost) forgetBelow(path string) { h.open.forgetBelow(path) }

// traits is what is known about a file system.
type traits struct {
	local  bool // only this kernel changes it
	tells  bool // link, unlink, rename and exchange of a file set its time of change
	prompt bool // what is in memory is returned without asking anybody
}

// traitsOf returns the traits of a file system by its type; see statfs(2). It assumes
// nothing about an unknown one, which may be a network server or a program that does
// not answer. XFS does not set the time of change when files are exchanged. An overlay
// may lie on XFS, or on anything; it is prompt if asked with AT_STATX_DONT_SYNC and
// RESOLVE_CACHED.
func traitsOf(kind int64) traits {
	switch kind {
	case unix.EXT4_SUPER_MAGIC, unix.BTRFS_SUPER_MAGIC, unix.TMPFS_MAGIC:
		return traits{local: true, tells: true, prompt: true}
	case unix.XFS_SUPER_MAGIC, unix.OVERLAYFS_SUPER_MAGIC:
		return traits{local: true, prompt: true}
	case unix.F2FS_SUPER_MAGIC, unix.RAMFS_MAGIC:
		return traits{prompt: true}
	}
	return traits{}
}
