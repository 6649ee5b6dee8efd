package cas

import (
	"errors"
	"io/fs"
	"syscall"

	"capd/vfs"
)

// explain turns an error of the host into one with a code. It never passes on the text,
// which may name a path of the host.
func explain(err error) error {
	if vfs.IsAnswer(err) {
		return err
	}
	if errno, ok := errors.AsType[syscall.Errno](err); ok {
		switch errno {
		case syscall.ENOSPC, syscall.EDQUOT:
			return vfs.Errorf(vfs.Limit, "the store's disk is full; collect, or give it room")
		case syscall.EROFS:
			return vfs.Errorf(vfs.ReadOnly, "the store's file system is mounted read-only")
		case syscall.EFBIG:
			return vfs.Errorf(vfs.TooLarge, "the file is too large for the store's file system")
		case syscall.EMFILE, syscall.ENFILE, syscall.ENOMEM, syscall.ENOBUFS:
			return vfs.Errorf(vfs.Busy, "the host is out of descriptors or memory; try again later")
		}
	}
	switch {
	case errors.Is(err, fs.ErrPermission):
		return vfs.Errorf(vfs.Denied, "the host's own permissions do not allow this; ask the host to change them")
	case errors.Is(err, fs.ErrClosed):
		return vfs.At("", vfs.Stale)
	}
	return vfs.Hide(err)
}
