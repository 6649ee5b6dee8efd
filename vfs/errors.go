package vfs

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"strings"

	"capd/meter"
)

// Code is one of a closed set of errors. The words are the same on every surface. A
// Code is itself an error: errors.Is(err, vfs.NotFound).
type Code string

// The codes. docs/errors.md says what to do about each.
const (
	NotFound    Code = "notFound"    // nothing is there
	Exists      Code = "exists"      // something is there already
	NotDir      Code = "notDir"      // a directory was needed
	IsDir       Code = "isDir"       // a directory is there where a file was needed
	NotEmpty    Code = "notEmpty"    // a directory that is not empty
	NotRegular  Code = "notRegular"  // a FIFO, socket, device or link where a file was needed
	Invalid     Code = "invalid"     // a name, path or argument that is never valid
	Outside     Code = "outside"     // a link leads above the Dir of the call
	CrossDevice Code = "crossDevice" // another filesystem or another store
	Conflict    Code = "conflict"    // a condition did not hold
	Stale       Code = "stale"       // the node is no longer where it was opened
	TooLarge    Code = "tooLarge"    // larger than this call can take
	Limit       Code = "limit"       // too many, too long or too deep
	Corrupt     Code = "corrupt"     // stored bytes do not match their digest

	Denied     Code = "denied"     // withheld by policy
	ReadOnly   Code = "readOnly"   // this capability or this store does not allow changes
	AskDenied  Code = "askDenied"  // needs an approval, and it was refused
	AskTimeout Code = "askTimeout" // needs an approval, and nobody answered

	Revoked Code = "revoked" // the capability was taken back
	Expired Code = "expired" // the capability's time has ended

	Quota Code = "quota" // the storage quota is used up
	Busy  Code = "busy"  // in use; try again

	Unsupported Code = "unsupported" // this store or peer cannot do it
	Internal    Code = "internal"    // a fault in capd; the host's log has the cause
)

// Codes lists every code.
var Codes = []Code{
	NotFound, Exists, NotDir, IsDir, NotEmpty, NotRegular, Invalid, Outside, CrossDevice, Conflict, Stale,
	TooLarge, Limit, Corrupt, Denied, ReadOnly, AskDenied, AskTimeout, Revoked, Expired, Quota, Busy,
	Unsupported, Internal,
}

func (c Code) Error() string { return string(c) }

// Is maps codes to the errors of io/fs.
func (c Code) Is(target error) bool {
	switch target {
	case fs.ErrNotExist:
		return c == NotFound
	case fs.ErrExist:
		return c == Exists
	case fs.ErrPermission:
		return c.Policy() && c != Quota
	case fs.ErrInvalid:
		return c == Invalid
	case fs.ErrClosed:
		return c == Stale
	}
	return false
}

// Policy reports whether the code is a decision of the host's policy. Every other code
// is operational.
func (c Code) Policy() bool {
	switch c {
	case Denied, ReadOnly, AskDenied, AskTimeout, Revoked, Expired, Quota:
		return true
	}
	return false
}

// Error is a Code with the path it is about and what to do next. The text leaves out
// the cause, which may name host paths. The cause is for the host's log.
type Error struct {
	Code  Code
	Path  string // relative to the caller's root; "" until the edge adds it
	Msg   string // what happened and what to do next; names no path
	Cause error
}

// Error returns "code: path: message". It cuts a path that is longer than MaxPath.
func (e *Error) Error() string {
	s := string(e.Code)
	switch {
	case len(e.Path) > MaxPath:
		s += ": " + Printable(e.Path[:MaxPath]) + "…"
	case e.Path != "":
		s += ": " + Printable(e.Path)
	}
	if e.Msg != "" {
		s += ": " + e.Msg
	}
	return s
}

// Is reports whether target is e's code, or an io/fs error that the code maps to.
func (e *Error) Is(target error) bool { return e.Code == target || e.Code.Is(target) }

// Unwrap returns the cause, for the host's log.
func (e *Error) Unwrap() error { return e.Cause }

// Errorf returns an *Error without a path.
func Errorf(c Code, format string, args ...any) error {
	return &Error{Code: c, Msg: fmt.Sprintf(format, args...)}
}

// Hide returns an Internal error that keeps cause for the host's log and shows nothing
// of it.
func Hide(cause error) error {
	return &Error{Code: Internal, Msg: "the host could not do this; its log has the cause", Cause: cause}
}

// Message returns the text of err without its code and path.
func Message(err error) string {
	if e, ok := errors.AsType[*Error](err); ok && e.Msg != "" {
		return e.Msg
	}
	return err.Error()
}

// CodeOf returns err's code: "" for nil, Internal for an error without a code.
func CodeOf(err error) Code {
	if err == nil {
		return ""
	}
	if e, ok := errors.AsType[*Error](err); ok {
		return e.Code
	}
	if c, ok := errors.AsType[Code](err); ok {
		return c
	}
	if c, ok := ofMeter(err); ok {
		return c
	}
	return Internal
}

// ofMeter returns the code of an error of package meter.
func ofMeter(err error) (Code, bool) {
	if err == meter.ErrBusy {
		return Busy, true
	}
	if _, ok := errors.AsType[*meter.Lacks](err); ok {
		return Quota, true
	}
	full, ok := errors.AsType[*meter.Full](err)
	switch {
	case !ok:
		return "", false
	case full.Kind == meter.StagedBytes:
		return Busy, true
	}
	return Limit, true
}

// IsAnswer reports whether a store may answer err as it is: it is nil, it has a code, or
// it says that the context has ended or that the call would wait. A store gives every
// other error a code.
func IsAnswer(err error) bool {
	switch err {
	case nil, ErrWouldBlock, ErrStepwise:
		return true
	}
	_, full := errors.AsType[*Error](err)
	_, bare := errors.AsType[Code](err)
	return full || bare || errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded)
}

// At returns err as an *Error with path. It keeps err's code, message and cause. An
// error without a code becomes Internal, and nothing of it is shown. If the message
// begins with the path or with its last names, as the message of a remote host does,
// they are not repeated. At(path, nil) is nil.
//
// At is for the edge, which alone knows the caller's root.
func At(path string, err error) error {
	if err == nil {
		return nil
	}
	if e, ok := errors.AsType[*Error](err); ok {
		at := *e
		at.Path, at.Msg = path, withoutPath(e.Msg, path)
		return &at
	}
	if c, ok := errors.AsType[Code](err); ok {
		return &Error{Code: c, Path: path, Msg: hints[c]}
	}
	if c, ok := ofMeter(err); ok {
		return &Error{Code: c, Path: path, Msg: err.Error()}
	}
	at := Hide(err).(*Error)
	at.Path = path
	return at
}

// withoutPath returns msg without path, or the last names of path, at its beginning. It
// does not look for a path longer than MaxPath: a guest may send megabytes.
func withoutPath(msg, path string) string {
	if len(path) > MaxPath {
		return msg
	}
	path = Printable(path) // Printable leaves each "/" as it is
	for more := path != ""; more; _, path, more = strings.Cut(path, "/") {
		if rest, ok := strings.CutPrefix(msg, path); ok && path != "" {
			if rest, ok = strings.CutPrefix(rest, ": "); ok {
				return rest
			}
		}
	}
	return msg
}

// hints are the messages of codes that come without one.
var hints = map[Code]string{
	NotFound:    "nothing has this name; list() shows what is here",
	Exists:      "the name is taken; remove it first or choose another",
	NotDir:      "this is not a directory",
	IsDir:       "this is a directory; a file was needed",
	NotEmpty:    "the directory is not empty; remove what it holds first",
	NotRegular:  "this is a link or a special file; a regular file was needed",
	CrossDevice: "another filesystem or store begins here; copy instead",
	Stale:       "this node is no longer where it was opened; look it up again",
	ReadOnly:    "this capability does not write",
	Denied:      "withheld by policy, whether or not it exists",
	AskDenied:   "this write needs an approval, and nobody here gives one",
	Revoked:     "the capability was taken back; ask its giver for another",
	Expired:     "the capability's time is over; ask its giver for another",
	Unsupported: "this store cannot do that",
	Busy:        "in use; try again",
}
