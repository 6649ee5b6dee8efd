package physical

import (
	"golang.org/x/sys/unix"

	"capd/vfs"
)

// within implements visitor. The kernel resolves the names at once, through no link and no
// mount.
func (d *kernelDir) within(way string) (visitor, error) {
	fd, err := openat2(d.fd, way, unix.O_PATH|unix.O_DIRECTORY|unix.O_NOFOLLOW, 0)
	if err == unix.ELOOP {
		err = unix.ENOTDIR // a link is no directory
	}
	if err != nil {
		return nil, err
	}
	return &kernelDir{h: d.h, fd: fd, path: vfs.Join(d.path, way), owned: true}, nil
}

// whole implements visitor. It opens what has the name without looking before: opening
// does not wait for a FIFO's writer, and nothing is read of what is no file.
func (d *kernelDir) whole(name string, window []byte) (n int, fits bool, err error) {
	fd, a, err := openRegular(d.fd, name, unix.O_RDONLY)
	if err != nil {
		return 0, false, err
	}
	defer unix.Close(fd)
	if a.size >= int64(len(window)) {
		return 0, false, nil
	}
	for n < len(window) {
		var k int
		err := uninterrupted(func() (err error) { k, err = unix.Read(fd, window[n:]); return })
		if err != nil {
			return 0, false, err
		}
		if n += k; k == 0 || int64(n) == a.size { // some file systems say 0 of files that have content
			return n, true, nil
		}
	}
	return 0, false, nil
}
