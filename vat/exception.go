package vat

import (
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"

	"capnproto.org/go/capnp/v3/std/capnp/rpc"

	"capd/meter"
)

// An ExceptionType tells the caller how to react (rpc.capnp, Exception.Type).
type ExceptionType uint16

const (
	Failed        ExceptionType = iota // a generic problem
	Overloaded                         // not enough resources: try again later
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

// An Exception is the failure of a call as it is on the wire. Every remote failure is one. A handler may
// return one to choose what its caller sees.
type Exception struct {
	Type   ExceptionType
	Reason string // for people; if the failure is remote, the peer chose it

	cause  error
	own    bool // made by this package, and not by a handler or the peer
	remote bool // made by the peer
}

func (e *Exception) Error() string { return e.Reason }

// Own reports whether this package made e, rather than a handler or the peer.
func (e *Exception) Own() bool { return e.own }

// Remote reports whether e came from the peer, which may say anything.
func (e *Exception) Remote() bool { return e.remote }

// Unwrap returns the error in this process that caused the failure. For a call that was not sent, it is the
// error of a context or of filling in the parameters. For a call within this process, it is the error of the
// handler. A peer sees neither the cause nor a reason that tells it, only "internal error".
func (e *Exception) Unwrap() error { return e.cause }

// notSent returns the failure of a call that was not sent.
func notSent(method string, cause error) *Exception {
	e := exceptionf(Failed, "%s was not sent: %v", method, cause)
	e.cause = cause
	return e
}

// maxReason bounds the reason of an exception in bytes, in both directions.
const maxReason = 16 << 10

func exceptionf(t ExceptionType, format string, args ...any) *Exception {
	return &Exception{Type: t, Reason: fmt.Sprintf(format, args...), own: true}
}

// limitf returns the refusal of a call that would exceed a limit of the connection. The reason begins with
// the word limit.
func limitf(format string, args ...any) *Exception {
	return exceptionf(Failed, "limit: "+format, args...)
}

// The failures that this package itself gives to calls. Options.Encode may choose other words for the peer.
var (
	ErrCanceled = exceptionf(Failed, "call was canceled")                          // the caller cancelled it, or nobody waits for it any more
	ErrNull     = exceptionf(Failed, "call on a null capability")                  // its target is null
	ErrNotCap   = exceptionf(Failed, "null capability: the result has none there") // its target is a part of results where there is no capability
	ErrNoMethod = exceptionf(Unimplemented, "method not implemented")              // the capability has no such method
	ErrReleased = exceptionf(Failed, "call on a reference that was released")
)

var (
	errInternal = exceptionf(Failed, "internal error")
	errDropped  = exceptionf(Failed, "the answer was released")
	errCycle    = exceptionf(Failed, "promise resolved to itself")
)

// asException is the default Options.Encode. It returns an *Exception in err's tree as it is, and the message
// of a refusal by the meter. Every other error is an internal error without a cause, since its text may
// contain what the peer must not know.
func asException(err error) *Exception {
	if e := ofMeter(err); e != nil {
		return e
	}
	if e, ok := errors.AsType[*Exception](err); ok {
		return e
	}
	return errInternal
}

// ofMeter returns the exception for a refusal by the meter in err's tree, or nil for any other error.
func ofMeter(err error) *Exception {
	if full, ok := errors.AsType[*meter.Full](err); ok {
		return exceptionf(Overloaded, "limit: %v", full)
	}
	if errors.Is(err, meter.ErrBusy) {
		return exceptionf(Overloaded, "busy: %v", meter.ErrBusy)
	}
	return nil
}

// within returns what a caller in this process sees of a handler's error: the result of asException, with the
// error as its cause.
func within(err error) *Exception {
	e := asException(err)
	if e == errInternal && err != errInternal {
		return &Exception{Type: e.Type, Reason: e.Reason, cause: err, remote: e.remote}
	}
	return e
}

// readException reads an Exception of the peer.
func readException(e rpc.Exception) *Exception {
	reason, err := e.ReasonBytes()
	if err != nil {
		return exceptionf(Failed, "malformed exception")
	}
	t := ExceptionType(e.Type())
	if t > Unimplemented {
		t = Failed
	}
	return &Exception{Type: t, remote: true, Reason: clip(string(reason[:min(len(reason), maxReason+1)]))} // a copy, so that the rest is freed
}

// writeException writes e for the peer. If e has a cause in this process, it writes only the type, since the
// reason tells the cause.
func writeException(w rpc.Exception, e *Exception) error {
	w.SetType(rpc.Exception_Type(min(e.Type, Unimplemented)))
	if e.cause != nil {
		return w.SetReason(errInternal.Reason)
	}
	return w.SetReason(clip(e.Reason))
}

// short returns e with as much of its reason as can be sent, and frees the rest.
func (e *Exception) short() *Exception {
	if len(e.Reason) <= maxReason {
		return e
	}
	return &Exception{Type: e.Type, Reason: strings.Clone(clip(e.Reason)), cause: e.cause, own: e.own, remote: e.remote}
}

// clip cuts s to maxReason bytes, at the boundary of a rune.
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
