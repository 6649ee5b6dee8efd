package physical

import (
	"os"
	"strings"

	"golang.org/x/sys/unix"

	"capd/vfs"
)

// kernelDir is an open directory. Every operation names one segment in it, so there is
// no path that somebody could exchange on the way.
type kernelDir struct {
	h     *kernelHost
	fd    int    // O_PATH
	path  string // from the root
	owned bool
	try   bool // lstat and sub do not wait; only where the file system is prompt
}

// descend opens path in d as an O_PATH descriptor.
func (d *kernelDir) descend(path string, flags int) (int, error) {
	if d.try {
		return openCached(d.fd, path, flags)
	}
	return openat2(d.fd, path, flags, 0)
}

func (d *kernelDir) release() {
	if d.owned {
		d.owned = false
		unix.Close(d.fd)
	}
}

func (d *kernelDir) attr() (attr, error) {
	return d.h.describe(d.fd)
}

func (d *kernelDir) ident() (ident, error) {
	stx, err := d.h.statx(d.fd, "")
	if err != nil {
		return ident{}, err
	}
	return identOf(d.fd, &stx), nil
}

func (d *kernelDir) lstat(name string) (attr, error) {
	if d.try { // statx(2) may wait
		fd, err := d.descend(name, unix.O_PATH|unix.O_NOFOLLOW)
		if err != nil {
			return attr{}, err
		}
		return d.h.describeClosing(fd)
	}
	stx, err := d.h.statx(d.fd, name)
	if err != nil {
		return attr{}, err
	}
	if stx.Mask&unix.STATX_MNT_ID != 0 && stx.Mnt_id != d.h.mount {
		return attr{}, vfs.CrossDevice
	}
	return attrOfStatx(&stx), nil
}

// look opens the node, since a directory is identified by a descriptor. If it may wait,
// statx alone is enough for anything else.
func (d *kernelDir) look(name string) (attr, ident, error) {
	if !d.try {
		if a, err := d.lstat(name); err != nil || a.kind != vfs.DirKind {
			return a, ident{}, err
		}
	}
	fd, err := d.descend(name, unix.O_PATH|unix.O_NOFOLLOW)
	if err != nil {
		return attr{}, ident{}, err
	}
	defer unix.Close(fd)
	stx, err := d.h.statx(fd, "")
	if err != nil {
		return attr{}, ident{}, err
	}
	a := attrOfStatx(&stx)
	if a.kind != vfs.DirKind {
		return a, ident{}, nil
	}
	return a, d.h.identAt(vfs.Join(d.path, name), fd, &stx, false), nil
}

func (d *kernelDir) sub(name string) (directory, ident, error) {
	fd, err := d.descend(name, unix.O_PATH|unix.O_DIRECTORY|unix.O_NOFOLLOW)
	if err != nil {
		return nil, ident{}, err
	}
	return d.opened(vfs.Join(d.path, name), fd, false)
}

// below leaves to the caller's walk what the kernel refuses, and what it cannot tell
// while names move.
func (d *kernelDir) below(path string) (directory, ident, error) {
	resolve := uint64(confined)
	if d.try {
		resolve |= resolveCached
	}
	way := strings.TrimPrefix(path[len(d.path):], "/")
	fd, err := openOnce(d.fd, way, unix.O_PATH|unix.O_DIRECTORY|unix.O_NOFOLLOW, 0, resolve)
	switch {
	case err == nil:
		return d.opened(path, fd, true)
	case err == unix.ENOENT:
		return nil, ident{}, err
	case err == unix.EAGAIN && d.try:
		return nil, ident{}, vfs.ErrWouldBlock
	}
	return nil, ident{}, vfs.ErrStepwise
}

// opened returns the directory at path, from the root, that fd is open on. It takes fd
// over. keep is for identAt.
func (d *kernelDir) opened(path string, fd int, keep bool) (directory, ident, error) {
	stx, err := d.h.statx(fd, "")
	if err != nil {
		unix.Close(fd)
		return nil, ident{}, err
	}
	return &kernelDir{h: d.h, fd: fd, path: path, owned: true, try: d.try}, d.h.identAt(path, fd, &stx, keep), nil
}

func (d *kernelDir) open(name string, flag int) (*os.File, attr, error) {
	fd, a, err := d.descriptor(name, flag)
	if err != nil {
		return nil, attr{}, err
	}
	f, err := blocking(fd)
	return f, a, err
}

// blocking returns fd, from openRegular, as a file. It first makes fd blocking. Package os
// registers a non-blocking descriptor with epoll, and epoll_ctl(2) may ask the file system
// and wait for it, while it holds a processor of Go's.
func blocking(fd int) (*os.File, error) {
	if err := unix.SetNonblock(fd, false); err != nil {
		unix.Close(fd)
		return nil, err
	}
	return os.NewFile(uintptr(fd), "file"), nil
}

func (d *kernelDir) read(name string) (reader, attr, error) {
	fd, a, err := d.descriptor(name, unix.O_RDONLY)
	if err != nil {
		return nil, attr{}, err
	}
	return newOpenFile(d.h, fd, a), a, nil
}

// descriptor opens the regular file called name.
func (d *kernelDir) descriptor(name string, flag int) (int, attr, error) {
	before, err := d.lstat(name)
	if err != nil {
		return -1, attr{}, err
	}
	if err := before.regular(); err != nil {
		return -1, attr{}, err
	}
	return openRegular(d.fd, name, flag)
}

// openRegular opens the regular file at path, which was regular a moment ago.
func openRegular(dir int, path string, flag int) (int, attr, error) {
	fd, err := openat2(dir, path, flag|unix.O_NONBLOCK|unix.O_NOFOLLOW|unix.O_NOCTTY, 0)
	if err == unix.ELOOP {
		err = unix.ENXIO // a link took its place a moment ago
	}
	if err != nil {
		return -1, attr{}, err
	}
	var st unix.Stat_t
	err = fstat(fd, &st)
	a := attrOfStat(&st)
	if err == nil {
		err = a.regular()
	}
	if err != nil {
		unix.Close(fd)
		return -1, attr{}, err
	}
	return fd, a, nil
}

func (d *kernelDir) readlink(name string) (string, error) {
	for size := 256; ; size *= 2 {
		buf := make([]byte, size)
		var n int
		err := uninterrupted(func() (err error) { n, err = unix.Readlinkat(d.fd, name, buf); return })
		if err != nil {
			return "", err
		}
		if n < size {
			return string(buf[:n]), nil
		}
	}
}

func (d *kernelDir) create(name string, perm os.FileMode) (*os.File, error) {
	flags := unix.O_RDWR | unix.O_CREAT | unix.O_EXCL | unix.O_NOFOLLOW | unix.O_NOCTTY | unix.O_CLOEXEC
	var fd int
	err := uninterrupted(func() (err error) {
		fd, err = withRoom(func() (int, error) { return unix.Openat(d.fd, name, flags, uint32(perm)) })
		return err
	})
	if err != nil {
		return nil, err
	}
	return os.NewFile(uintptr(fd), "file"), nil
}

func (d *kernelDir) mkdir(name string, perm os.FileMode) error {
	return uninterrupted(func() error { return unix.Mkdirat(d.fd, name, uint32(perm)) })
}

func (d *kernelDir) symlink(target, name string) error {
	return uninterrupted(func() error { return unix.Symlinkat(target, d.fd, name) })
}

func (d *kernelDir) link(name string, fd int, as string) error {
	return uninterrupted(func() error { return unix.Linkat(d.fd, name, fd, as, 0) })
}

func (d *kernelDir) unlink(name string) error {
	return uninterrupted(func() error { return unix.Unlinkat(d.fd, name, 0) })
}

func (d *kernelDir) rmdir(name string) error {
	return uninterrupted(func() error { return unix.Unlinkat(d.fd, name, unix.AT_REMOVEDIR) })
}

// pin holds an O_PATH descriptor, which needs no right to read.
func (d *kernelDir) pin(name string) (unpin func()) {
	fd, err := openat2(d.fd, name, unix.O_PATH|unix.O_NOFOLLOW, 0)
	if err != nil {
		return func() {} // freeing may then take time
	}
	return func() { unix.Close(fd) }
}

// move uses renameat2(2). On a file system without RENAME_NOREPLACE it uses a hard link
// for a file, which is as atomic, and checks beforehand for other nodes.
func (d *kernelDir) move(name string, dst directory, newName string, how how) error {
	to := dst.(*kernelDir)
	var flags uint
	switch how {
	case noReplace:
		flags = unix.RENAME_NOREPLACE
	case exchange:
		flags = unix.RENAME_EXCHANGE
	}
	err := uninterrupted(func() error { return unix.Renameat2(d.fd, name, to.fd, newName, flags) })
	if flags == 0 || err != unix.EINVAL && err != unix.ENOSYS {
		return err
	}
	if how == exchange {
		return errNoExchange
	}
	err = uninterrupted(func() error { return unix.Linkat(d.fd, name, to.fd, newName, 0) })
	switch err {
	case nil:
		if err := arrived(d.path, to); err != nil {
			to.unlink(newName)
			return err
		}
		return d.unlink(name)
	case unix.EPERM, unix.EOPNOTSUPP, unix.ENOSYS, unix.EMLINK:
	default:
		return err
	}
	if _, err := to.lstat(newName); err == nil {
		return unix.EEXIST
	}
	return uninterrupted(func() error { return unix.Renameat(d.fd, name, to.fd, newName) })
}

// reopen opens the directory itself for reading.
func (d *kernelDir) reopen() (int, error) {
	return openat2(d.fd, ".", unix.O_RDONLY|unix.O_DIRECTORY, 0)
}

func (d *kernelDir) self() (*os.File, error) {
	fd, err := d.reopen()
	if err != nil {
		return nil, err
	}
	return os.NewFile(uintptr(fd), "directory"), nil
}
