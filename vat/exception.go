package vat

import (
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"

	"capnproto.org/go/capnp/v3/std/capnp/rpc"

	"capd/meter"
)

// An ExceptionType tells the caller how it may react (rpc.capnp, Exception.Type).
type ExceptionType uint16

const (
	Failed        ExceptionType = iota // a generic problem
	Overloaded                         // for lack of resources: try again later
	Disconnected                       // a connection that the call needed is gone
	Unimplemented                      // no such method
)

func (t ExceptionType) String() string {
	switch t {
	case Overloaded:
		return "overloaded"
	case Disconnected:
		return "disconnected"
	case Unimplemented:
		return "unimplemented"
	}
	return "failed"
}

// An Exception is a call's failure as the wire has it. A remote failure becomes one, and a handler may return
// one to choose what its caller sees.
type Exception struct {
	Type   ExceptionType
	Reason string // for people; the peer chooses it when the failure is remote

	cause error
	own   bool // this package's, and not a handler's or the peer's
}

func (e *Exception) Error() string { return e.Reason }

// Own reports whether this package has made e, and neither a handler nor the peer.
func (e *Exception) Own() bool { return e.own }

// Unwrap returns the error of this process behind a failure: to send, that of a context, or of what filled in the
// parameters; of a call that never left the process, its handler's. It does not leave the process, and nor does the reason, which tells it: a peer reads "internal error".
func (e *Exception) Unwrap() error { return e.cause }

// notSent is the failure of a call that never left.
func notSent(method string, cause error) *Exception {
	e := exceptionf(Failed, "%s was not sent: %v", method, cause)
	e.cause = cause
	return e
}

// maxReason bounds the text of an exception in bytes, in both directions.
const maxReason = 16 << 10

func exceptionf(t ExceptionType, format string, args ...any) *Exception {
	return &Exception{Type: t, Reason: fmt.Sprintf(format, args...), own: true}
}

// limitf is the refusal of one call that would exceed one of the connection's limits. Its reason begins with
// the word limit.
func limitf(format string, args ...any) *Exception {
	return exceptionf(Failed, "limit: "+format, args...)
}

// What this package itself fails calls with. Options.Encode gets them too, and may give the peer other words.
var (
	ErrCanceled = ownFailure(Failed, "call was canceled")                          // the caller gave it up, or nobody waits for it any more
	ErrNull     = ownFailure(Failed, "call on a null capability")                  // it is aimed at nothing
	ErrNotCap   = ownFailure(Failed, "null capability: the result has none there") // it is aimed at a part of results where nothing is
	ErrNoMethod = ownFailure(Unimplemented, "method not implemented")              // the capability has no such method
	ErrReleased = ownFailure(Failed, "call on a reference that was released")
)

var (
	errInternal = ownFailure(Failed, "internal error")
	errDropped  = ownFailure(Failed, "the answer was released")
	errCycle    = ownFailure(Failed, "promise resolved to itself")
)

func ownFailure(t ExceptionType, reason string) *Exception {
	return &Exception{Type: t, Reason: reason, own: true}
}

// asException is the default Options.Encode: an *Exception anywhere in err's tree stands for itself, a refusal of the meter's
// says what it is, and every other error is a failure without a cause, since its text may name what the peer must not know.
func asException(err error) *Exception {
	if e := ofMeter(err); e != nil {
		return e
	}
	if e, ok := errors.AsType[*Exception](err); ok {
		return e
	}
	return errInternal
}

// ofMeter is what a refusal of the meter's, anywhere in err's tree, is to its guest, nil for any other error.
func ofMeter(err error) *Exception {
	if full, ok := errors.AsType[*meter.Full](err); ok {
		return exceptionf(Overloaded, "limit: %v", full)
	}
	if errors.Is(err, meter.ErrBusy) {
		return exceptionf(Overloaded, "busy: %v", meter.ErrBusy)
	}
	return nil
}

// within is what a caller in this process sees of a handler's error: what asException makes of it, with the error itself.
func within(err error) *Exception {
	e := asException(err)
	if e == errInternal && err != errInternal {
		return &Exception{Type: e.Type, Reason: e.Reason, cause: err}
	}
	return e
}

// readException decodes an Exception of the peer's.
func readException(e rpc.Exception) *Exception {
	reason, err := e.ReasonBytes()
	if err != nil {
		return exceptionf(Failed, "malformed exception")
	}
	t := ExceptionType(e.Type())
	if t > Unimplemented {
		t = Failed
	}
	return &Exception{Type: t, Reason: clip(string(reason[:min(len(reason), maxReason+1)]))} // and not the memory of the rest
}

// writeException writes e for the peer: of one that has a cause in this process, which its reason tells, the type alone.
func writeException(w rpc.Exception, e *Exception) error {
	w.SetType(rpc.Exception_Type(min(e.Type, Unimplemented)))
	if e.cause != nil {
		return w.SetReason(errInternal.Reason)
	}
	return w.SetReason(clip(e.Reason))
}

// short returns e, or what can be sent of it, without the memory of the rest.
func (e *Exception) short() *Exception {
	if len(e.Reason) <= maxReason {
		return e
	}
	return &Exception{Type: e.Type, Reason: strings.Clone(clip(e.Reason)), cause: e.cause, own: e.own}
}

// clip cuts s to maxReason bytes, at a rune's boundary.
func clip(s string) string {
	if len(s) <= maxReason {
		return s
	}
	n := maxReason
	for n > 0 && !utf8.RuneStart(s[n]) {
		n--
	}
	return s[:n]
}
