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

// Encode returns err as the exception that a caller sees: "code: path: what to
// do next". An error without a code becomes internal, and nothing of its cause
// is in the text.
func Encode(err error) *vat.Exception {
	if e, ok := errors.AsType[*vat.Exception](err); ok && e.Unwrap() == nil { // else it is ours: a call that was not sent
		return e
	}
	if errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return &vat.Exception{Type: vat.Failed, Reason: "stale: the call was cancelled"}
	}
	e, ok := errors.AsType[*vfs.Error](err)
	if !ok {
		e = vfs.At("", err).(*vfs.Error)
	}
	if e.Msg == "" {
		e = vfs.At(e.Path, e.Code).(*vfs.Error)
	}
	return &vat.Exception{Type: typeOf(e.Code), Reason: e.Error()}
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

// Decode returns a failed call's error as a *vfs.Error, safe to print. Only the
// text's first word can be the code; names come after it. io.EOF and the errors of contexts
// stay as they are.
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
	word, rest, _ := strings.Cut(e.Reason, ":")
	if code := vfs.Code(word); slices.Contains(vfs.Codes, code) {
		return &vfs.Error{Code: code, Msg: vfs.Printable(strings.TrimSpace(rest))}
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
