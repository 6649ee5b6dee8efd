// Package wire is where the waist's values and the wire's are translated, for
// the objects that are served and for the client alike: errors, stats,
// conditions, versions.
package wire

import (
	"context"
	"errors"
	"io"
	"slices"
	"strings"

	"capd/vat"
	"capd/vfs"
)

// mark stands before the code in an exception's text. Runtimes put words of their
// own before the text, and names come after the code, so the first one counts.
const mark = "capd: "

// Encode returns err as the exception that a caller sees: "capd: code: path: what
// to do next". An error without a code becomes internal, and nothing of its cause
// is in the text. An exception that somebody else has made stands for itself.
func Encode(err error) *vat.Exception {
	if e, ok := errors.AsType[*vat.Exception](err); ok && e.Unwrap() == nil { // else it is ours: a call that was not sent
		own, ok := ofVat(e)
		if !ok {
			return e
		}
		err = own
	}
	if errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		err = errCancelled
	}
	e, ok := errors.AsType[*vfs.Error](err)
	if !ok {
		e = vfs.At("", err).(*vfs.Error)
	}
	if e.Msg == "" {
		e = vfs.At(e.Path, e.Code).(*vfs.Error)
	}
	return &vat.Exception{Type: typeOf(e.Code), Reason: mark + e.Error()}
}

var errCancelled = &vfs.Error{Code: vfs.Stale, Msg: "the call was cancelled"}

// ofVat returns what package vat fails a call with itself as an error with a code.
func ofVat(e *vat.Exception) (*vfs.Error, bool) {
	switch e {
	case vat.ErrCanceled:
		return errCancelled, true
	case vat.ErrReleased:
		return &vfs.Error{Code: vfs.Stale, Msg: "the reference was given up; ask for another"}, true
	case vat.ErrNoMethod:
		return &vfs.Error{Code: vfs.Unsupported, Msg: "what this was called on has no such method; a File has none of a Dir's, and a Dir none of a File's"}, true
	case vat.ErrNull, vat.ErrNotCap:
		return &vfs.Error{Code: vfs.Invalid, Msg: "this was called on a null capability; there is nothing where it was taken from"}, true
	}
	reason := e.Reason
	if e.Type == vat.Disconnected {
		reason = strings.TrimPrefix(reason, vat.PeerAborted)
	}
	if text, found := strings.CutPrefix(reason, "limit: "); found {
		return &vfs.Error{Code: vfs.Limit, Msg: vfs.Printable(text)}, true
	}
	if e.Own() {
		return &vfs.Error{Code: vfs.Internal, Msg: e.Reason, Cause: e}, true
	}
	return nil, false
}

func typeOf(c vfs.Code) vat.ExceptionType {
	switch c {
	case vfs.Revoked, vfs.Expired:
		return vat.Disconnected
	case vfs.Quota, vfs.Busy:
		return vat.Overloaded
	case vfs.Unsupported:
		return vat.Unimplemented
	}
	return vat.Failed
}

// Decode returns a failed call's error as a *vfs.Error, safe to print. The code is
// the word after the text's first mark; names come after it. io.EOF and the errors
// of contexts stay as they are.
func Decode(err error) error {
	if err == nil || err == io.EOF || errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return err
	}
	e, ok := errors.AsType[*vat.Exception](err)
	if !ok {
		return err
	}
	if here, ok := errors.AsType[*vfs.Error](err); ok { // of a handler in this process
		return here
	}
	if code, text, ok := read(e.Reason); ok {
		return &vfs.Error{Code: code, Msg: vfs.Printable(text)}
	}
	if own, ok := ofVat(e); ok {
		return own
	}
	switch e.Type {
	case vat.Disconnected:
		return &vfs.Error{Code: vfs.Stale, Msg: "the connection to the host is gone; connect again", Cause: e}
	case vat.Unimplemented:
		return &vfs.Error{Code: vfs.Unsupported, Msg: "the host does not know this method", Cause: e}
	case vat.Overloaded:
		return &vfs.Error{Code: vfs.Busy, Msg: vfs.Printable(e.Reason), Cause: e}
	}
	return &vfs.Error{Code: vfs.Internal, Msg: vfs.Printable(e.Reason), Cause: e}
}

// read returns the code in an exception's text, and what follows it.
func read(reason string) (code vfs.Code, text string, ok bool) {
	_, text, _ = strings.Cut(reason, mark)
	word, text, _ := strings.Cut(text, ":")
	code = vfs.Code(word)
	return code, strings.TrimSpace(text), slices.Contains(vfs.Codes, code)
}
