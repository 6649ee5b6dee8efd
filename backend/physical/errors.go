package physical

import (
	"context"
	"errors"
	"io/fs"
	"strings"
	"syscall"

	"capd/vfs"
)

// explain turns err, usually of a system call, into an error with a code that says what
// to do. It never passes on the system's text, which may name a path of the host.
func explain(err error) error {
	if err == nil || err == vfs.ErrWouldBlock || err == vfs.ErrStepwise || errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return err
	}
	if e, ok := errors.AsType[*vfs.Error](err); ok {
		return e
	}
	if c, ok := errors.AsType[vfs.Code](err); ok {
		return vfs.At("", c)
	}
	if errno, ok := errors.AsType[syscall.Errno](err); ok {
		if known := explainErrno(errno); known != nil {
			return known
		}
	}
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return vfs.At("", vfs.NotFound)
	case errors.Is(err, fs.ErrExist):
		return vfs.At("", vfs.Exists)
	case errors.Is(err, fs.ErrPermission):
		return hostDenies()
	case errors.Is(err, fs.ErrClosed):
		return vfs.At("", vfs.Stale)
	case strings.HasSuffix(err.Error(), "path escapes from parent"): // of os.Root; the only sign
		return vfs.At("", vfs.Stale)
	case strings.HasSuffix(err.Error(), ": not a directory"): // of os.Root.OpenRoot; the only sign
		return vfs.At("", vfs.NotDir)
	}
	return vfs.Hide(err)
}

func hostDenies() error {
	return vfs.Errorf(vfs.Denied, "the host's own permissions do not allow this; ask the host to change them")
}

func explainErrno(errno syscall.Errno) error {
	switch errno {
	case syscall.ENOTEMPTY:
		return vfs.At("", vfs.NotEmpty)
	case syscall.EACCES, syscall.EPERM:
		return hostDenies()
	case syscall.EROFS:
		return vfs.At("", vfs.ReadOnly)
	case syscall.ENOSPC:
		return vfs.Errorf(vfs.Limit, "the disk is full; remove something or ask the host for room")
	case syscall.EDQUOT:
		return vfs.Errorf(vfs.Limit, "the host's disk quota is used up; remove something or ask the host for room")
	case syscall.EMLINK:
		return vfs.Errorf(vfs.Limit, "the file system takes no more entries here; use another directory")
	case syscall.EFBIG:
		return vfs.Errorf(vfs.TooLarge, "the file is too large for the file system")
	case syscall.EMFILE, syscall.ENFILE, syscall.ENOMEM, syscall.ENOBUFS:
		return vfs.Errorf(vfs.Busy, "the host is out of descriptors or memory; try again later")
	case syscall.EAGAIN:
		return vfs.Errorf(vfs.Busy, "another program holds a lease on it, or names keep moving; try again")
	case syscall.EBUSY, syscall.ETXTBSY:
		return vfs.Errorf(vfs.Busy, "another program is using it; try again")
	case syscall.EXDEV:
		return vfs.At("", vfs.CrossDevice)
	case syscall.ENOTDIR:
		return vfs.At("", vfs.NotDir)
	case syscall.EISDIR:
		return vfs.At("", vfs.IsDir)
	case syscall.ELOOP, syscall.ENXIO, syscall.ENODEV:
		return vfs.At("", vfs.NotRegular)
	case syscall.ESTALE:
		return vfs.At("", vfs.Stale)
	case syscall.ENAMETOOLONG:
		return vfs.Errorf(vfs.Invalid, "the name is longer than this file system allows")
	case syscall.EINVAL, syscall.EILSEQ:
		return vfs.Errorf(vfs.Invalid, "this file system does not accept such a name or argument")
	case syscall.EOPNOTSUPP, syscall.ENOSYS:
		return vfs.Errorf(vfs.Unsupported, "this file system cannot do that")
	}
	return nil
}

// gone turns a missing name into stale, for a directory that was verified just before.
func gone(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return vfs.At("", vfs.Stale)
	}
	return explain(err)
}

// isExist reports that a name was taken. It excludes ENOTEMPTY, which package syscall
// includes.
func isExist(err error) bool {
	return errors.Is(err, fs.ErrExist) && !errors.Is(err, syscall.ENOTEMPTY)
}

func isNotExist(err error) bool { return errors.Is(err, fs.ErrNotExist) }

var errKeepsChanging = vfs.Errorf(vfs.Busy, "other programs keep changing it; try again")
