package physical

import (
	"errors"
	"io/fs"
	"strings"
	"syscall"

	"capd/vfs"
)

// explain turns err, usually of a system call, into an error with a code that says what
// to do. It never passes on the system's text, which may name a path of the host.
func explain(err error) error {
	if vfs.IsAnswer(err) {
		return err
	}
	if errno, ok := errors.AsType[syscall.Errno](err); ok {
		if known := errnos[errno]; known != nil {
			return known
		}
	}
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return vfs.At("", vfs.NotFound)
	case errors.Is(err, fs.ErrExist):
		return vfs.At("", vfs.Exists)
	case errors.Is(err, fs.ErrPermission):
		return errDenied
	case errors.Is(err, fs.ErrClosed):
		return vfs.At("", vfs.Stale)
	case strings.HasSuffix(err.Error(), "path escapes from parent"): // of os.Root; the only sign
		return vfs.At("", vfs.Stale)
	case strings.HasSuffix(err.Error(), ": not a directory"): // of os.Root.OpenRoot; the only sign
		return vfs.At("", vfs.NotDir)
	}
	return vfs.Hide(err)
}

var (
	errDenied   = vfs.Errorf(vfs.Denied, "the host's own permissions do not allow this; ask the host to change them")
	errScarce   = vfs.Errorf(vfs.Busy, "the host is out of descriptors or memory; try again later")
	errInUse    = vfs.Errorf(vfs.Busy, "another program is using it; try again")
	errArgument = vfs.Errorf(vfs.Invalid, "this file system does not accept such a name or argument")
	errUnable   = vfs.Errorf(vfs.Unsupported, "this file system cannot do that")
)

// errnos has what the kernel's errors mean here.
var errnos = map[syscall.Errno]error{
	syscall.ENOTEMPTY:    vfs.NotEmpty,
	syscall.EACCES:       errDenied,
	syscall.EPERM:        errDenied,
	syscall.EROFS:        vfs.ReadOnly,
	syscall.ENOSPC:       vfs.Errorf(vfs.Limit, "the disk is full; remove something or ask the host for room"),
	syscall.EDQUOT:       vfs.Errorf(vfs.Limit, "the host's disk quota is used up; remove something or ask the host for room"),
	syscall.EMLINK:       vfs.Errorf(vfs.Limit, "the file system takes no more entries here; use another directory"),
	syscall.EFBIG:        vfs.Errorf(vfs.TooLarge, "the file is too large for the file system"),
	syscall.EMFILE:       errScarce,
	syscall.ENFILE:       errScarce,
	syscall.ENOMEM:       errScarce,
	syscall.ENOBUFS:      errScarce,
	syscall.EAGAIN:       vfs.Errorf(vfs.Busy, "another program holds a lease on it, or names keep moving; try again"),
	syscall.EBUSY:        errInUse,
	syscall.ETXTBSY:      errInUse,
	syscall.EXDEV:        vfs.CrossDevice,
	syscall.ENOTDIR:      vfs.NotDir,
	syscall.EISDIR:       vfs.IsDir,
	syscall.ELOOP:        vfs.NotRegular,
	syscall.ENXIO:        vfs.NotRegular,
	syscall.ENODEV:       vfs.NotRegular,
	syscall.ESTALE:       vfs.Stale,
	syscall.ENAMETOOLONG: vfs.Errorf(vfs.Invalid, "the name is longer than this file system allows"),
	syscall.EINVAL:       errArgument,
	syscall.EILSEQ:       errArgument,
	syscall.EOPNOTSUPP:   errUnable,
	syscall.ENOSYS:       errUnable,
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
