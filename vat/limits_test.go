package vat_test

import (
	"context"
	"encoding/binary"
	"errors"
	"net"
	"regexp"
	"slices"
	"strings"
	"testing"

	"capnproto.org/go/capnp/v3"
	"capnproto.org/go/capnp/v3/std/capnp/rpc"

	"capd/vat"
	tp "capd/vat/internal/testproto"
)

// Each limit has a small value and is tried from both sides: exactly the limit is allowed, and one more has the stated
// effect.

// opened is a raw peer that holds the bootstrap capability and an Echo, and has finished neither call.
func opened(t testing.TB, limits vat.Limits) (r *raw, boot, e uint32) {
	t.Helper()
	r = newRaw(t, limits)
	boot = r.boot()
	return r, boot, r.get(1, boot, 0)
}

// come reads the next message, except for what the other side gives back in between at any time.
func (r *raw) come(which rpc.Message_Which) rpc.Message {
	r.t.Helper()
	for {
		m, ok := r.recv()
		if !ok {
			r.t.Fatal("the connection has ended")
		}
		if m.Which() != rpc.Message_Which_finish && m.Which() != rpc.Message_Which_release {
			if got := m.Which(); got != which {
				r.t.Fatalf("m.Which() = %v, want %v", got, which)
			}
			return m
		}
	}
}

// back reads a Return of that kind for q.
func (r *raw) back(q uint32, which rpc.Return_Which) rpc.Return {
	r.t.Helper()
	ret, err := r.come(rpc.Message_Which_return).Return()
	vat.OK(r.t, err)
	if got := ret.AnswerId(); got != q {
		r.t.Fatalf("ret.AnswerId() = %d, want %d", got, q)
	}
	if got := ret.Which(); got != which {
		r.t.Fatalf("ret.Which() = %v, want %v", got, which)
	}
	return ret
}

// asked reads a Call, and returns its number and its size in bytes.
func (r *raw) asked() (q uint32, size int) {
	r.t.Helper()
	m := r.come(rpc.Message_Which_call)
	call, err := m.Call()
	vat.OK(r.t, err)
	total, err := m.Message().TotalSize()
	vat.OK(r.t, err)
	return call.QuestionId(), int(total) - 8 // without the header
}

// answer returns from a call of the other side, without results.
func (r *raw) answer(q uint32) {
	r.t.Helper()
	r.send(func(m rpc.Message) error {
		ret, err := m.NewReturn()
		if err != nil {
			return err
		}
		ret.SetAnswerId(q)
		_, err = ret.NewResults()
		return err
	})
}

// shout makes the Echo e answer a text.
func (r *raw) shout(q, e uint32) {
	r.t.Helper()
	r.call(q, tp.Echo_TypeID, 0, toExport(e), params(capnp.ObjectSize{PointerCount: 1}, 0,
		func(s capnp.Struct, _ rpc.CapDescriptor_List) error { return s.SetText(0, "hello") }))
}

// echoes makes a call that must succeed, whatever happened to others: the connection is still open.
func (r *raw) echoes(q, e uint32) {
	r.t.Helper()
	r.shout(q, e)
	p, err := r.back(q, rpc.Return_Which_results).Results()
	vat.OK(r.t, err)
	content, err := p.Content()
	vat.OK(r.t, err)
	text, err := content.Struct().Ptr(0)
	vat.OK(r.t, err)
	if got, want := text.Text(), "hello"; got != want {
		r.t.Fatalf("text.Text() = %q, want %q", got, want)
	}
	r.finish(q, true)
	vat.OK(r.t, r.conn.Err())
}

// doze makes a call of the Echo e that stays in progress, with this many bytes and these capabilities of the peer.
func (r *raw) doze(q, e uint32, bytes int, caps ...uint32) {
	r.t.Helper()
	r.call(q, tp.Echo_TypeID, 2, toExport(e), params(capnp.ObjectSize{DataSize: 8, PointerCount: 1}, int32(len(caps)),
		func(s capnp.Struct, l rpc.CapDescriptor_List) error {
			s.SetUint32(0, 60_000)
			for i, id := range caps {
				l.At(i).SetSenderHosted(id)
			}
			return s.SetData(0, make([]byte, bytes))
		}))
}

// wake gives up a dozing call.
func (r *raw) wake(q uint32) {
	r.t.Helper()
	r.finish(q, true)
	r.back(q, rpc.Return_Which_canceled)
}

// refused reads that the call q was refused because of a limit.
func (r *raw) refused(q uint32, kind vat.ExceptionType, reason string) {
	r.t.Helper()
	e, err := r.back(q, rpc.Return_Which_exception).Exception()
	vat.OK(r.t, err)
	got, err := e.Reason()
	vat.OK(r.t, err)
	if !strings.HasPrefix(got, "limit: "+reason) {
		r.t.Errorf("the reason is %q, want it to begin with %q", got, "limit: "+reason)
	}
	if got := vat.ExceptionType(e.Type()); got != kind {
		r.t.Errorf("e.Type() = %v, want %v", got, kind)
	}
	vat.OK(r.t, r.conn.Err())
}

// ends reads the Abort that ends the connection. reason is a regular expression for the
// beginning of its text.
func (r *raw) ends(reason string) {
	r.t.Helper()
	got := r.aborted()
	if !regexp.MustCompile("^" + reason).MatchString(got) {
		r.t.Fatalf("aborted with %q, want it to begin with a match of %q", got, reason)
	}
	<-r.conn.Done()
	var broke *vat.ProtocolError
	if err := r.conn.Err(); !errors.As(err, &broke) {
		r.t.Fatalf("r.conn.Err(): %v, want a %T", err, broke)
	}
	if broke.Reason != got {
		r.t.Errorf("broke.Reason = %q, want %q", broke.Reason, got)
	}
}

// spread writes every message in this many segments, with all its content in the first.
type spread struct {
	net.Conn
	segments int
}

func (s spread) Write(b []byte) (int, error) {
	head := make([]byte, (4+4*s.segments+7)&^7)
	binary.LittleEndian.PutUint32(head, uint32(s.segments-1))
	copy(head[4:8], b[4:8])
	_, err := s.Conn.Write(slices.Concat(head, b[8:]))
	return len(b), err
}

// keep makes the Echo e produce results of this many bytes, and leaves them there.
func (r *raw) keep(q, e uint32, bytes uint32) {
	r.t.Helper()
	r.call(q, tp.Echo_TypeID, 1, toExport(e), params(capnp.ObjectSize{DataSize: 8}, 0,
		func(s capnp.Struct, _ rpc.CapDescriptor_List) error { s.SetUint32(0, bytes); return nil }),
		func(c rpc.Call) error { c.SendResultsTo().SetYourself(); return nil })
	r.back(q, rpc.Return_Which_resultsSentElsewhere)
}

func TestLimitsThatEnd(t *testing.T) {
	// The size of the results that are kept: when the peer is opened, and for one more chain.
	r, boot, _ := opened(t, vat.Limits{})
	first := r.conn.Stats().ResultBytes
	r.get(2, boot, 2)
	each := r.conn.Stats().ResultBytes - first
	if first <= 0 {
		t.Fatalf("first = %d, want more than 0", first)
	}
	if each <= 0 {
		t.Fatalf("each = %d, want more than 0", each)
	}
	r.conn.Close()
	<-r.conn.Done()

	for name, c := range map[string]struct {
		limits       vat.Limits
		upTo, beyond func(r *raw, boot, e uint32)
		want         string
	}{
		"Segments": {
			vat.Limits{Segments: 4},
			func(r *raw, _, e uint32) {
				r.nc = spread{r.nc, 4}
				r.echoes(2, e)
			},
			func(r *raw, _, e uint32) {
				r.nc = spread{r.nc.(spread).Conn, 5}
				r.shout(3, e)
			},
			"message of 5 segments, and the limit is 4",
		},
		"Depth of the protocol's own messages": {
			vat.Limits{Depth: 3},
			func(*raw, uint32, uint32) {},
			func(r *raw, _, e uint32) {
				r.nc = spread{r.nc, 2} // read from its root
				r.shout(3, e)
			},
			"malformed message: .*depth limit",
		},
		"ResultBytes": {
			vat.Limits{ResultBytes: first + 3*each},
			func(r *raw, boot, _ uint32) {
				for q := range uint32(4) {
					r.get(2+q, boot, 2)
					if q == 0 {
						r.finish(2, true) // it waits no more
					}
				}
				if got, want := r.conn.Stats().ResultBytes, first+3*each; got != want {
					r.t.Errorf("r.conn.Stats().ResultBytes = %d, want %d", got, want)
				}
			},
			func(r *raw, boot, _ uint32) { r.call(6, tp.Server_TypeID, 2, toExport(boot)) },
			"limit: results of",
		},
		"ResultBytes of what is to stay": {
			vat.Limits{ResultBytes: first + 256<<10},
			func(r *raw, _, e uint32) {
				for q := range uint32(2) {
					r.keep(2+q, e, 100<<10)
				}
			},
			func(r *raw, _, e uint32) { r.keep(4, e, 100<<10) },
			"limit: results of",
		},
		"Imports": {
			vat.Limits{Imports: 4},
			func(r *raw, _, e uint32) {
				r.doze(2, e, 0, 1, 2, 3)
				r.doze(3, e, 0, 3, 4) // of which one is known
				r.wake(3)
				r.doze(4, e, 0, 2, 5) // instead of 4
				r.echoes(5, e)
				if got := r.conn.Stats().Imports; got != 4 {
					r.t.Errorf("r.conn.Stats().Imports = %d, want 4", got)
				}
			},
			func(r *raw, _, e uint32) { r.doze(6, e, 0, 6) },
			"more than 4 capabilities of one peer's",
		},
	} {
		t.Run(name, func(t *testing.T) {
			r, boot, e := opened(t, c.limits)
			c.upTo(r, boot, e)
			r.echoes(100, e)
			c.beyond(r, boot, e)
			r.ends(c.want)
		})
	}
}

// If the parameters of the calls in progress exceed the limit, further calls are refused until some of them have ended.
func TestCallBytesLimit(t *testing.T) {
	const limit = 4 << 10
	r, _, e := opened(t, vat.Limits{CallBytes: limit})
	r.doze(2, e, 1<<10)
	r.echoes(3, e)
	size := r.conn.Stats().CallBytes
	if size <= int64(1<<10) {
		t.Fatalf("size = %d, want more than %d", size, int64(1<<10))
	}
	r.doze(4, e, int(limit-size-(size-1<<10)))
	r.shout(5, e)
	r.refused(5, vat.Overloaded, "calls in progress hold 4096 bytes")
	if got := r.conn.Stats().CallBytes; got != limit {
		t.Errorf("r.conn.Stats().CallBytes = %d, want %d", got, limit)
	}
	r.wake(2)
	r.echoes(6, e)

	r.doze(7, e, limit) // more than all of it
	r.refused(7, vat.Overloaded, "calls in progress hold 4096 bytes")
	r.echoes(8, e)
}

// If the peer has not returned the greatest number of calls, further calls to it are refused until it returns one.
func TestQuestionsLimit(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	r, boot, e := opened(t, vat.Limits{Questions: 2})
	invoke := func(q uint32) { // has the peer called back, and answers after that
		r.call(q, tp.Server_TypeID, 3, toExport(boot), capParam(func(d rpc.CapDescriptor) error {
			d.SetSenderHosted(7)
			return nil
		}))
	}
	invoke(2)
	first, _ := r.asked()
	invoke(3)
	r.asked()
	if got := r.conn.Stats().Questions; got != 2 {
		t.Errorf("r.conn.Stats().Questions = %d, want 2", got)
	}
	invoke(4)
	r.refused(4, vat.Failed, "2 calls to the peer are open")
	r.echoes(5, e)

	own := r.conn.Bootstrap(ctx) // is a question, too
	defer own.Release()
	var refused *vat.Exception
	if err := vat.Do(ctx, own, tp.Server_drop, nil, nil); !errors.As(err, &refused) {
		t.Fatalf("vat.Do(own, tp.Server_drop, nil, nil): %v, want a %T", err, refused)
	}
	if !strings.HasPrefix(refused.Reason, "limit: 2 calls to the peer are open") {
		t.Errorf("refused.Reason = %q, want it to begin with %q", refused.Reason, "limit: 2 calls to the peer are open")
	}
	if refused.Type != vat.Failed {
		t.Errorf("refused.Type = %v, want %v", refused.Type, vat.Failed)
	}

	r.answer(first)
	r.back(2, rpc.Return_Which_results)
	invoke(6)
	r.asked()
	invoke(7)
	r.refused(7, vat.Failed, "2 calls to the peer are open")
	r.echoes(8, e)
}

// delve reads parameters: this many times, from pointer to pointer as far as they lead.
type delve capnp.Struct

var delveSize = capnp.ObjectSize{DataSize: 8, PointerCount: 1}

var delveMethod = vat.Method[delve, vat.Empty]{Interface: 0xd0d1, Name: "delve", Params: delveSize}

var delveTable = vat.NewTable(vat.Handle(delveMethod, func(_ *int, c vat.Call[delve, vat.Empty]) error {
	p := capnp.Struct(c.Params())
	for range p.Uint32(0) {
		for next := p.ToPtr(); next.IsValid(); {
			var err error
			if next, err = next.Struct().Ptr(0); err != nil {
				return &vat.Exception{Reason: err.Error()}
			}
		}
	}
	return nil
}, vat.Inline()))

// Content that is too deep, or too much to read, is an error for its reader: one call fails.
func TestLimitsOfReading(t *testing.T) {
	// nested is a struct within another, and so on, n levels deep.
	nested := func(s capnp.Struct, n int) error {
		s.SetUint32(0, 1)
		for range n {
			inner, err := capnp.NewStruct(s.Segment(), capnp.ObjectSize{PointerCount: 1})
			if err != nil {
				return err
			}
			if err := s.SetPtr(0, inner.ToPtr()); err != nil {
				return err
			}
			s = inner
		}
		return nil
	}
	// again is data that is read n times.
	again := func(s capnp.Struct, n int) error {
		s.SetUint32(0, uint32(n))
		return s.SetData(0, make([]byte, 10_000))
	}
	for name, c := range map[string]struct {
		limits   vat.Limits
		segments int
		fill     func(s capnp.Struct, n int) error
		most     int
		want     string
	}{
		"Depth": {vat.Limits{Depth: 16}, 1, nested, 16 - 1, "depth limit"}, // the parameters are the first
		// A message that is not laid out as usual is read from its root: Message, Call, Payload and then the parameters.
		"Depth from the root": {vat.Limits{Depth: 16}, 2, nested, 16 - 4, "depth limit"},
		"TraversalBytes":      {vat.Limits{TraversalBytes: 16 + 3*10_000}, 1, again, 3, "traversal limit"},
	} {
		t.Run(name, func(t *testing.T) {
			r, boot, e := opened(t, c.limits)
			r.world.held.Lock()
			r.world.held.cap = vat.Serve(delveTable, new(int))
			r.world.held.Unlock()
			d := r.get(2, boot, 7)
			r.nc = spread{r.nc, c.segments}
			read := func(q uint32, n int) {
				r.call(q, delveMethod.Interface, delveMethod.ID, toExport(d), params(delveSize, 0,
					func(s capnp.Struct, _ rpc.CapDescriptor_List) error { return c.fill(s, n) }))
			}
			read(3, c.most)
			r.back(3, rpc.Return_Which_results)
			read(4, c.most+1)
			if got := r.exception(4); !strings.Contains(got, c.want) {
				t.Errorf("r.exception(4) = %q, want it to contain %q", got, c.want)
			}
			read(5, c.most) // each message has its own
			r.back(5, rpc.Return_Which_results)
			r.echoes(6, e)
		})
	}
}

// A call of a stream waits for those on their way through the same reference, unless there are none.
func TestStreamBytesLimit(t *testing.T) {
	const window = 16 << 10
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	over, stop := context.WithCancel(ctx)
	stop()
	r, boot, e := opened(t, vat.Limits{StreamBytes: window})
	r.hold(2, boot, func(d rpc.CapDescriptor) error { d.SetSenderHosted(5); return nil })
	r.world.held.Lock()
	s := r.world.held.cap.AddRef()
	r.world.held.Unlock()
	defer s.Release()
	write := func(ctx context.Context, s *vat.Cap, bytes int) error { // reports only what was not sent
		a := vat.Send(ctx, s, tp.Stream_write, func(_ tp.Stream_write_Params, c *vat.Caps) error {
			return c.SetData(tp.Stream_write_Params_data, make([]byte, bytes))
		})
		defer a.Release()
		_, _, err := a.Await(over)
		if notSent, ok := errors.AsType[*vat.Exception](err); ok {
			return notSent
		}
		return nil
	}

	vat.OK(t, write(over, s, 4<<10))
	first, size := r.asked()
	vat.OK(t, write(over, s, window-size-(size-4<<10)))
	_, rest := r.asked()
	if got := size + rest; got != window {
		t.Fatalf("size+rest = %d, want %d", got, window)
	}
	other := s.AddRef()
	defer other.Release()
	if err := write(over, other, 2*window); err != nil {
		t.Fatalf("write(over, other, 2*window): %v; it is alone, in a window of its own", err)
	}
	_, large := r.asked()
	if large <= 2*window {
		t.Fatalf("large = %d, want more than %d", large, 2*window)
	}
	if err := write(over, other, 8); !errors.Is(err, context.Canceled) {
		t.Fatalf("write(over, other, 8): %v, want %v", err, context.Canceled)
	}

	r.answer(first)
	if err := write(ctx, s, 4<<10); err != nil {
		t.Fatalf("write(s, 4<<10): %v: there is room again", err)
	}
	r.asked()
	if err := write(over, s, 8); !errors.Is(err, context.Canceled) {
		t.Fatalf("write(over, s, 8): %v, want %v, since it would have to wait", err, context.Canceled)
	}
	if err := write(ctx, s, 8); !errors.Is(err, context.Canceled) {
		t.Fatalf("write(s, 8): %v, want %v: since an earlier call was not sent", err, context.Canceled)
	}
	r.echoes(3, e)
}
