package git

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"syscall"

	"github.com/go-git/go-git/v5/plumbing"

	"capd/vfs"
)

const errNotDir = syscall.ENOTDIR

// ambient makes an error of the host's filesystem one for the host: it names paths.
func ambient(err error) error {
	code := vfs.Internal
	switch {
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, errNotDir):
		code = vfs.NotFound
	case errors.Is(err, fs.ErrPermission):
		code = vfs.Denied
	}
	return &vfs.Error{Code: code, Msg: err.Error(), Cause: err}
}

// hidden makes an error of the host's filesystem one that a guest may see.
func hidden(err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, os.ErrClosed):
		return vfs.Stale
	case errors.Is(err, syscall.ENOSPC):
		return &vfs.Error{Code: vfs.Limit, Msg: "the host's disk is full; remove something or try later", Cause: err}
	case errors.Is(err, syscall.EMFILE), errors.Is(err, syscall.ENFILE):
		return &vfs.Error{Code: vfs.Busy, Msg: "the host has too many files open; try again", Cause: err}
	}
	if _, ok := errors.AsType[*vfs.Error](err); ok {
		return err
	}
	if _, ok := errors.AsType[vfs.Code](err); ok {
		return err
	}
	return vfs.Hide(err)
}

// corrupt says what is wrong with an object.
func corrupt(id plumbing.Hash, what string) error {
	return vfs.Errorf(vfs.Corrupt, "object %s %s; the host can find out more by git fsck", id, what)
}

var errMalformed = errors.New("git: malformed object data") // becomes corrupt where the object is known

// readBounded reads r whole, and answers limit when it is longer than most.
func readBounded(r io.Reader, most int64) (string, error) {
	b, err := io.ReadAll(io.LimitReader(r, most+1))
	if err == nil && int64(len(b)) > most {
		err = vfs.Errorf(vfs.Limit, "a file of the repository is longer than %d bytes", most)
	}
	return string(b), err
}
