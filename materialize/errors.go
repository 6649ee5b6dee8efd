package materialize

import (
	"errors"
	"io/fs"
	"strings"
	"syscall"

	"capd/vfs"
)

var (
	errBusy   = vfs.Errorf(vfs.Busy, "it keeps changing; stop what works in the directory and try again")
	errClosed = vfs.Errorf(vfs.Stale, "this tree was closed; materialize it again")
)

// explain turns err, usually of the host, into an error with a code. It hides the text,
// which names paths of the host.
func explain(err error) error {
	if vfs.IsAnswer(err) {
		return err
	}
	if errno, ok := errors.AsType[syscall.Errno](err); ok {
		switch errno {
		case syscall.ENOSPC:
			return &vfs.Error{Code: vfs.Limit, Msg: "the host's disk is full; ask the host for room", Cause: err}
		case syscall.EMFILE, syscall.ENFILE, syscall.ENOMEM:
			return &vfs.Error{Code: vfs.Busy, Msg: "the host is out of descriptors or memory; try again later", Cause: err}
		case syscall.ENOTDIR:
			return &vfs.Error{Code: vfs.NotDir, Msg: "it is not a directory any more", Cause: err}
		case syscall.ELOOP:
			return &vfs.Error{Code: vfs.NotRegular, Msg: "it is a link now", Cause: err}
		case syscall.ENAMETOOLONG, syscall.EINVAL, syscall.EILSEQ:
			return &vfs.Error{Code: vfs.Invalid, Msg: "the host's file system does not take such a name", Cause: err}
		}
	}
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return &vfs.Error{Code: vfs.NotFound, Msg: "it is not in the directory any more", Cause: err}
	case errors.Is(err, fs.ErrExist):
		return &vfs.Error{Code: vfs.Exists, Msg: "the name is taken", Cause: err}
	case errors.Is(err, fs.ErrPermission):
		return &vfs.Error{Code: vfs.Denied, Msg: "the host's own permissions do not allow this", Cause: err}
	case errors.Is(err, fs.ErrClosed):
		return errClosed
	case escapes(err):
		return &vfs.Error{Code: vfs.Outside, Msg: "it is a link out of the tree now", Cause: err}
	}
	return vfs.Hide(err)
}

// escapes reports os.Root's error for a path that leads out of it. The text is its only
// sign.
func escapes(err error) bool { return strings.HasSuffix(err.Error(), "path escapes from parent") }
