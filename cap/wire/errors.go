// Package wire translates between Go and the wire, for the served objects and for the
// clients: the errors, stats, conditions and versions of package vfs, and the values of
// package operator. It has both directions of each. SetX writes an X, and X reads it;
// what is read from a peer may be anything, and is checked.
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

// mark precedes the code in the text of an exception. Only the first mark counts: other
// implementations of the protocol put text of their own before it, and names, which may
// contain it, come after the code.
const mark = "capd: "

// Encode returns err as the exception that a caller sees: "capd: code: path: what to do
// next". An error without a code becomes internal, and its text is left out. An
// exception that somebody else made stays as it is.
func Encode(err error) *vat.Exception {
	if e, ok := errors.AsType[*vat.Exception](err); ok && e.Unwrap() == nil { // with a cause it is our own: of a call that was not sent
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

// ofVat returns an error with a code for an exception that package vat itself made.
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

// Decode returns the error of a failed call as a *vfs.Error, safe to print. The code is
// the word after the first mark in the text. io.EOF and the errors of contexts stay as
// they are.
func Decode(err error) error {
	if err == nil || err == io.EOF || errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return err
	}
	e, ok := errors.AsType[*vat.Exception](err)
	if !ok {
		return err
	}
	if here, ok := errors.AsType[*vfs.Error](err); ok { // from a handler in this process
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
