package git

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"
	"syscall"

	"github.com/go-git/go-git/v5/plumbing"

	"capd/vfs"
)

const errNotDir = syscall.ENOTDIR

// flaw is a fault of the repository, for the host. A guest does not learn that there is
// a repository.
type flaw struct{ error }

func (f *flaw) Unwrap() error { return f.error }

// flawed returns an error whose text a guest may see. ambient shows the host more of
// it.
func flawed(c vfs.Code, format string, args ...any) error {
	e := &vfs.Error{Code: c, Msg: "this cannot be read where it is kept; tell the host", Cause: &flaw{fmt.Errorf(format, args...)}}
	switch c {
	case vfs.Corrupt:
		e.Msg = "its content is damaged where it is kept; tell the host"
	case vfs.Limit:
		e.Msg = "where it is kept there is more than can be read; tell the host"
	case vfs.Outside:
		e.Msg = "it is kept where it may not be read from; tell the host"
	}
	return e
}

// escapes reports whether os.Root refused a link that leads out of it.
func escapes(err error) bool {
	return err != nil && strings.HasSuffix(err.Error(), "path escapes from parent") // the only sign
}

// ambient turns an error into one for the host, which names paths and objects.
// ambient(nil) is nil.
func ambient(err error) error {
	if e, ok := errors.AsType[*vfs.Error](err); ok {
		if f, ok := errors.AsType[*flaw](err); ok {
			e = &vfs.Error{Code: e.Code, Path: e.Path, Msg: f.Error(), Cause: e.Cause}
		}
		return e
	}
	if vfs.IsAnswer(err) {
		return err
	}
	code := vfs.Internal
	switch {
	case escapes(err):
		return &vfs.Error{Code: vfs.Outside, Msg: "a link leads out of the repository: " + err.Error(), Cause: err}
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, errNotDir):
		code = vfs.NotFound
	case errors.Is(err, fs.ErrPermission):
		code = vfs.Denied
	}
	return &vfs.Error{Code: code, Msg: err.Error(), Cause: err}
}

// hidden turns an error of the host's filesystem into one that a guest may see.
func hidden(err error) error {
	switch {
	case vfs.IsAnswer(err):
		return err
	case errors.Is(err, os.ErrClosed):
		return vfs.Stale
	case errors.Is(err, syscall.ENOSPC):
		return &vfs.Error{Code: vfs.Limit, Msg: "the host's disk is full; remove something or try later", Cause: err}
	case errors.Is(err, syscall.EMFILE), errors.Is(err, syscall.ENFILE):
		return &vfs.Error{Code: vfs.Busy, Msg: "the host has too many files open; try again", Cause: err}
	case escapes(err):
		return flawed(vfs.Outside, "a link leads out of the repository: %w", err)
	}
	return vfs.Hide(err)
}

// corrupt returns an error that says what is wrong with an object.
func corrupt(id plumbing.Hash, what string) error {
	return flawed(vfs.Corrupt, "object %s %s; git fsck finds out more", id, what)
}

var errMalformed = errors.New("git: malformed object data") // becomes corrupt where the object is known

// readBounded reads all of r. It answers limit if that is longer than most.
func readBounded(r io.Reader, most int64) (string, error) {
	b, err := io.ReadAll(io.LimitReader(r, most+1))
	if err == nil && int64(len(b)) > most {
		err = flawed(vfs.Limit, "a file of the repository is longer than %d bytes", most)
	}
	return string(b), err
}
