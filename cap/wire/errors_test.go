package wire_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"

	"capnproto.org/go/capnp/v3"

	"capd/cap/wire"
	"capd/vat"
	"capd/vfs"
)

// exceptions is the table of docs/errors.md. A code that is not in it is Failed.
var exceptions = map[vfs.Code]vat.ExceptionType{
	vfs.Revoked: vat.Disconnected, vfs.Expired: vat.Disconnected,
	vfs.Quota: vat.Overloaded, vfs.Busy: vat.Overloaded,
	vfs.Unsupported: vat.Unimplemented,
}

func TestRoundTrip(t *testing.T) {
	for _, code := range vfs.Codes {
		for _, err := range []error{
			code, vfs.Errorf(code, "what to do: now"), vfs.At("a/b", code), vfs.At("revoked: x", vfs.Errorf(code, "what to do")),
			fmt.Errorf("wrapped: %w", vfs.At("p", code)), &vfs.Error{Code: code, Cause: errors.New("/host/path")},
		} {
			e := wire.Encode(err)
			if e.Type != exceptions[code] {
				t.Errorf("%v is a %v exception, want %v", err, e.Type, exceptions[code])
			}
			if strings.Contains(e.Reason, "/host/path") || !strings.HasPrefix(e.Reason, "capd: "+string(code)) {
				t.Errorf("%v is sent as %q", err, e.Reason)
			}
			if got := vfs.CodeOf(wire.Decode(e)); got != code {
				t.Errorf("%v comes back as %v", err, got)
			}
		}
	}
}

func TestEncodeShowsNoCause(t *testing.T) {
	for _, err := range []error{
		errors.New("open /host/secret: denied"), fmt.Errorf("capnp: %w", errors.New("/host/secret")),
		vfs.Hide(errors.New("/host/secret")), vfs.At("f", errors.New("/host/secret")),
	} {
		if e := wire.Encode(err); strings.Contains(e.Reason, "secret") || vfs.CodeOf(wire.Decode(e)) != vfs.Internal {
			t.Errorf("%v is sent as %q", err, e.Reason)
		}
	}
	if got := vfs.CodeOf(wire.Decode(wire.Encode(context.Canceled))); got != vfs.Stale {
		t.Errorf("a cancelled call is %q", got)
	}
	e := &vat.Exception{Type: vat.Overloaded, Reason: "capd: busy: too many"}
	if wire.Encode(fmt.Errorf("x: %w", e)) != e {
		t.Error("an exception does not stand for itself")
	}
}

// The reason why a call of ours was not sent is not passed on.
func TestEncodeOfACallNotSent(t *testing.T) {
	nobody := vat.Serve(vat.NewTable(), new(int))
	defer nobody.Release()
	m := vat.Method[capnp.Struct, capnp.Struct]{Name: "none", Params: capnp.ObjectSize{DataSize: 8}}
	err := vat.Do(t.Context(), nobody, m, func(capnp.Struct, *vat.Caps) error { return errors.New("open /host/path") }, nil)
	if err == nil || !strings.Contains(err.Error(), "/host/path") {
		t.Fatalf("the caller is told %v", err)
	}
	if e := wire.Encode(err); strings.Contains(e.Reason, "path") || !strings.HasPrefix(e.Reason, "capd: "+string(vfs.Internal)) {
		t.Errorf("it is sent as %q", e.Reason)
	}
}

func TestDecode(t *testing.T) {
	for _, err := range []error{nil, io.EOF, context.Canceled, context.DeadlineExceeded} {
		if got := wire.Decode(err); got != err {
			t.Errorf("%v becomes %v", err, got)
		}
	}
	for _, c := range []struct {
		e    vat.Exception
		want vfs.Code
	}{
		{vat.Exception{Type: vat.Failed, Reason: "limit: 5 calls are open"}, vfs.Limit},
		{vat.Exception{Type: vat.Disconnected, Reason: "connection closed"}, vfs.Stale},
		{vat.Exception{Type: vat.Disconnected, Reason: "peer aborted the connection: limit: open calls hold too much"}, vfs.Limit},
		{vat.Exception{Type: vat.Disconnected, Reason: "peer aborted the connection: capd: busy: no room"}, vfs.Busy},
		{vat.Exception{Type: vat.Disconnected, Reason: "peer aborted the connection: malformed message: limit: 1"}, vfs.Stale},
		{vat.Exception{Type: vat.Unimplemented, Reason: "method not implemented"}, vfs.Unsupported},
		{vat.Exception{Type: vat.Overloaded, Reason: "later"}, vfs.Busy},
		{vat.Exception{Type: vat.Failed, Reason: "internal error"}, vfs.Internal},
		{vat.Exception{Type: vat.Failed, Reason: "capd: notFound"}, vfs.NotFound},
		{vat.Exception{Type: vat.Failed, Reason: "capd: notFound: revoked: gone"}, vfs.NotFound},
		{vat.Exception{Type: vat.Failed, Reason: "capd: notFound: capd: revoked: gone"}, vfs.NotFound},
		{vat.Exception{Type: vat.Failed, Reason: "remote exception: capd: notFound: gone"}, vfs.NotFound},
		{vat.Exception{Type: vat.Failed, Reason: "a: b (remote):0: failed: remote exception: capd: exists: gone"}, vfs.Exists},
		{vat.Exception{Type: vat.Failed, Reason: "capd: Revoked: no"}, vfs.Internal},
		{vat.Exception{Type: vat.Failed, Reason: "capd: nonsense: capd: revoked: no"}, vfs.Internal},
		{vat.Exception{Type: vat.Failed, Reason: "notFound: a word that stands there by chance"}, vfs.Internal},
		{vat.Exception{Type: vat.Disconnected, Reason: "revoked: by chance"}, vfs.Stale},
	} {
		if got := vfs.CodeOf(wire.Decode(&c.e)); got != c.want {
			t.Errorf("%v %q is %q, want %q", c.e.Type, c.e.Reason, got, c.want)
		}
	}
}

// Nothing that the other side says can control a terminal.
func TestDecodeIsPrintable(t *testing.T) {
	for _, reason := range []string{"capd: busy: \x1b[31m", "limit: \x1b[31m", "peer aborted the connection: limit: \x1b[31m", "\x1b[31m"} {
		for _, kind := range []vat.ExceptionType{vat.Failed, vat.Overloaded, vat.Disconnected, vat.Unimplemented} {
			if err := wire.Decode(&vat.Exception{Type: kind, Reason: reason}); strings.Contains(err.Error(), "\x1b") {
				t.Errorf("%v %q is %q", kind, reason, err)
			}
		}
	}
}

// A call that package vat fails has a code too, on both sides.
func TestOfVat(t *testing.T) {
	for e, want := range map[*vat.Exception]vfs.Code{
		vat.ErrCanceled: vfs.Stale, vat.ErrReleased: vfs.Stale, vat.ErrNoMethod: vfs.Unsupported, vat.ErrNull: vfs.Invalid, vat.ErrNotCap: vfs.Invalid,
	} {
		sent := wire.Encode(e)
		if !strings.HasPrefix(sent.Reason, "capd: "+string(want)+": ") || sent.Type != exceptions[want] {
			t.Errorf("%v is sent as %v %q", e, sent.Type, sent.Reason)
		}
		if got := vfs.CodeOf(wire.Decode(e)); got != want {
			t.Errorf("%v here is %q, want %q", e, got, want)
		}
	}
}

func TestPageSize(t *testing.T) {
	for limit, want := range map[uint32]int{0: wire.DefaultPage, 1: 1, wire.MaxPage: wire.MaxPage, wire.MaxPage + 1: wire.MaxPage, 1<<32 - 1: wire.MaxPage} {
		if got := wire.PageSize(limit); got != want {
			t.Errorf("a page for %d is %d, want %d", limit, got, want)
		}
	}
}
