package vat_test

import (
	"encoding/binary"
	"errors"
	"runtime"
	"strings"
	"testing"
	"time"

	"capnproto.org/go/capnp/v3"
	"capnproto.org/go/capnp/v3/std/capnp/rpc"

	"capd/meter"
	"capd/vat"
	tp "capd/vat/internal/testproto"
)

// header is the frame header of a message of one segment.
func header(bytes int) []byte {
	b := make([]byte, 8)
	binary.LittleEndian.PutUint32(b[4:], uint32(bytes/8))
	return b
}

// messages is a grant's meter with room for this many bytes of large messages.
func messages(bytes int64) *meter.Meter {
	return meter.NewHost(nil).Grant("g", meter.Limits{meter.MessageBytes: bytes})
}

// Connections that share a meter wait for each other's large messages. What does not wait goes on.
func TestMeteredMessages(t *testing.T) {
	b := messages(1 << 20)
	limits := vat.Limits{FrameTimeout: 2 * time.Second}
	first, second := newRaw(t, limits), connect(t, limits)
	first.conn.SetMeter(b)
	second.server.SetMeter(b)

	hold := make([]byte, 900<<10)
	_, err := first.nc.Write(append(header(1<<20), hold...))
	vat.OK(t, err)
	soon(t, func() bool { return b.Used(meter.MessageBytes) >= 900<<10 }, "the meter is not taken")

	e := second.echoCap(t)
	defer e.Release()
	echo := func(n int) error {
		return vat.Do(t.Context(), e, tp.Echo_echo, func(p tp.Echo_echo_Params, _ *vat.Caps) error {
			return p.SetText(string(make([]byte, n)))
		}, nil)
	}
	if err := echo(1000); err != nil {
		t.Fatalf("echo(1000): %v: a small message needs none", err)
	}
	done := make(chan error, 1)
	go func() { done <- echo(500 << 10) }()
	select {
	case err := <-done:
		t.Fatalf("a large message did not wait: %v", err)
	case <-time.After(50 * time.Millisecond):
	}
	second.server.SetMeter(messages(1 << 20))
	if err := <-done; err != nil {
		t.Fatalf("a call that waited when the meter was replaced: %v", err)
	}
	first.nc.Close()
	soon(t, func() bool { return b.Used(meter.MessageBytes) == 0 }, "the meter is not given back")
}

// A message for which there is no room within FrameTimeout ends its connection, and no other.
func TestMeterThatStaysFull(t *testing.T) {
	b := messages(1 << 20)
	first, second := newRaw(t, vat.Limits{}), newRaw(t, vat.Limits{FrameTimeout: 50 * time.Millisecond})
	first.conn.SetMeter(b)
	second.conn.SetMeter(b)
	_, err := first.nc.Write(append(header(1<<20), make([]byte, 900<<10)...))
	vat.OK(t, err)
	soon(t, func() bool { return b.Used(meter.MessageBytes) >= 900<<10 }, "the meter is not taken")
	_, err = second.nc.Write(header(500 << 10))
	vat.OK(t, err)
	if got := second.aborted(); !strings.Contains(got, "no room for a message") {
		t.Fatalf("second.aborted() = %q, want it to contain %q", got, "no room for a message")
	}
	vat.OK(t, first.conn.Err())
	first.nc.Close()
	soon(t, func() bool { return b.Used(meter.MessageBytes) == 0 }, "the meter is not given back")
}

func TestIdleTimeout(t *testing.T) {
	p := connect(t, vat.Limits{IdleTimeout: time.Second})
	e := p.echoCap(t)
	defer e.Release()
	for range 2 {
		err := vat.Do(t.Context(), e, tp.Echo_sleep, func(q tp.Echo_sleep_Params, _ *vat.Caps) error {
			q.SetMs(600)
			return nil
		}, nil)
		if err != nil {
			t.Fatalf("vat.Do: %v: a connection with calls is not idle", err)
		}
	}
	select {
	case <-p.server.Done():
		if err := p.server.Err(); err == nil || !strings.Contains(err.Error(), "idle") {
			t.Fatalf("p.server.Err(): %v, want it to contain %q", err, "idle")
		}
	case <-time.After(patience):
		t.Fatal("an idle connection goes on")
	}
}

// manyCaps is the parameters of a sleep with n times the capability id, in as few bytes as possible.
func manyCaps(ms uint32, n int32, id uint32) callOpt {
	return func(c rpc.Call) error {
		return errors.Join(
			params(capnp.ObjectSize{DataSize: 8}, 0, func(s capnp.Struct, _ rpc.CapDescriptor_List) error { s.SetUint32(0, ms); return nil })(c),
			func() error {
				p, err := c.Params()
				if err != nil {
					return err
				}
				l, err := capnp.NewCompositeList(p.Segment(), capnp.ObjectSize{DataSize: 8}, n)
				if err != nil {
					return err
				}
				for i := range int(n) {
					l.Struct(i).SetUint16(0, uint16(rpc.CapDescriptor_Which_receiverHosted))
					l.Struct(i).SetUint32(4, id)
				}
				return capnp.Struct(p).SetPtr(1, l.ToPtr())
			}())
	}
}

// A capability takes more memory than its descriptor does on the wire, and counts that much.
func TestCapabilitiesCount(t *testing.T) {
	const n, each = 5000, 8 + 64
	r := newRaw(t, vat.Limits{CallBytes: 2 * n * each})
	b := messages(1 << 20)
	r.conn.SetMeter(b)
	boot := r.boot()
	e := r.get(1, boot, 0)
	sleep := func(q uint32) { r.call(q, tp.Echo_TypeID, tp.Echo_sleep.ID, toExport(e), manyCaps(60_000, n, boot)) }
	sleep(2)
	soon(t, func() bool { return r.world.asleep.Load() == 1 }, "not called")
	if got := r.conn.Stats().CallBytes; got < int64(n*each) {
		t.Fatalf("r.conn.Stats().CallBytes = %d, want at least %d", got, int64(n*each))
	}
	if got := b.Used(meter.MessageBytes); got < int64(n*each) {
		t.Fatalf("b.Used(meter.MessageBytes) = %d, want at least %d", got, int64(n*each))
	}
	sleep(3)
	if got, want := r.exception(3), "limit: calls in progress hold 720000 bytes"; got != want {
		t.Fatalf("r.exception(3) = %q, want %q", got, want)
	}
	if got := b.Used(meter.MessageBytes); got >= int64(2*n*each) {
		t.Fatalf("b.Used(meter.MessageBytes) = %d, want less than %d", got, int64(2*n*each))
	}
	r.finish(2, true)
	soon(t, func() bool { return r.conn.Stats().CallBytes == 0 && b.Used(meter.MessageBytes) == 0 }, "not given back")
	soon(t, func() bool { return len(r.world.cancelled) == 1 }, "not cancelled")

	r.call(4, tp.Echo_TypeID, tp.Echo_sleep.ID, toExport(e), manyCaps(0, 1<<16+1, boot))
	if got, want := r.aborted(), "limit: 65537 capabilities in one message"; got != want {
		t.Fatalf("r.aborted() = %q, want %q", got, want)
	}
}

// What open calls hold counts in the meter that several connections share. A connection with a part of it is refused
// more, and ends at a third more. A connection without a part goes on.
func TestMeteredCalls(t *testing.T) {
	const total = 3 << 19
	b := meter.NewHost(nil).Grant("g", meter.Limits{meter.CallBytes: total})
	small, other := newRaw(t, vat.Limits{}), newRaw(t, vat.Limits{})
	small.conn.SetMeter(b)
	other.conn.SetMeter(b)
	e, calm := small.get(1, small.boot(), 0), other.get(1, other.boot(), 0)
	fail := func(q uint32) { // with a reason that is kept until Finish
		small.call(q, tp.Echo_TypeID, tp.Echo_fail.ID, toExport(e), params(capnp.ObjectSize{DataSize: 8, PointerCount: 1}, 0,
			func(s capnp.Struct, _ rpc.CapDescriptor_List) error { return s.SetText(0, strings.Repeat("x", 20<<10)) }))
	}
	q := uint32(2)
	for reason := ""; !strings.HasPrefix(reason, "limit: this grant holds all of its 1572864 bytes of open calls"); q++ {
		if got := small.conn.Stats().ResultBytes; got > int64(total+64<<10) {
			t.Fatalf("small.conn.Stats().ResultBytes = %d, want at most %d", got, int64(total+64<<10))
		}
		fail(q)
		reason = small.exception(q)
		if got := len(reason); got > 16<<10 {
			t.Fatalf("len(reason) = %d, want at most %d", got, 16<<10)
		}
	}
	if got := small.conn.Stats().ResultBytes; got <= int64(total-128<<10) {
		t.Fatalf("small.conn.Stats().ResultBytes = %d, want more than %d", got, int64(total-128<<10))
	}
	if got := b.Used(meter.CallBytes); got <= int64(total) {
		t.Fatalf("b.Used(meter.CallBytes) = %d, want more than %d", got, int64(total))
	}
	other.echoes(2, calm)
	for i := range uint32(10) { // there is room again
		small.finish(2+i, true)
	}
	fail(q)
	if got := small.exception(q); strings.Contains(got, "limit") {
		t.Fatalf("small.exception(q) = %q, want it not to contain %q", got, "limit")
	}
	for i := uint32(12); i <= q; i++ {
		small.finish(i, true)
	}
	soon(t, func() bool { return b.Used(meter.CallBytes) == 0 }, "not given back")

	// Even a call that holds almost nothing counts a little.
	most := uint32(total * 4 / 3 >> 11)
	for i := range most + 200 {
		small.shout(5000+i, e)
		m, ok := small.recv()
		if !ok {
			t.Fatal("the connection has ended")
		}
		if m.Which() == rpc.Message_Which_abort {
			if i <= most-200 {
				t.Fatalf("aborted at call %d, want more than %d", i, most-200)
			}
			x, _ := m.Abort()
			reason, _ := x.Reason()
			if want := "limit: open calls hold a third more than may be (limit callBytes)"; reason != want {
				t.Fatalf("reason = %q, want %q", reason, want)
			}
			<-small.conn.Done()
			if got := b.Used(meter.CallBytes); got != 0 {
				t.Fatalf("b.Used(meter.CallBytes) = %d, want 0", got)
			}
			other.echoes(3, calm)
			return
		}
	}
	t.Error("the connection goes on")
}

// When a connection leaves a meter, what its calls hold is given back there and counts in the next meter.
func TestMeterThatIsLeft(t *testing.T) {
	first, second := messages(1<<20), messages(1<<20)
	r := newRaw(t, vat.Limits{})
	r.conn.SetMeter(first)
	e := r.get(1, r.boot(), 0)
	for q := range uint32(10) { // none of which is large
		r.doze(2+q, e, 20<<10)
	}
	soon(t, func() bool { return first.Used(meter.CallBytes) > 0 }, "nothing is held")
	r.conn.SetMeter(second)
	if got := first.Used(meter.CallBytes); got != 0 {
		t.Fatalf("first.Used(meter.CallBytes) = %d, want 0", got)
	}
	if got := second.Used(meter.CallBytes); got <= 0 {
		t.Fatalf("second.Used(meter.CallBytes) = %d, want more than 0", got)
	}
	for q := range uint32(10) {
		r.wake(2 + q)
	}
	soon(t, func() bool { return second.Used(meter.CallBytes) == 0 }, "not given back")
}

// If a peer's reason for a failure is cut off, and returned to another of its calls, the rest of it is not kept either.
func TestLongReasonsAreNotKept(t *testing.T) {
	r := newRaw(t, vat.Limits{})
	boot := r.boot()
	e := r.get(1, boot, 0)
	held := func() *vat.Cap {
		r.hold(2, boot, func(d rpc.CapDescriptor) error { d.SetSenderHosted(5); return nil })
		r.world.held.Lock()
		defer r.world.held.Unlock()
		return r.world.held.cap.AddRef()
	}()
	defer held.Release()
	heap := func() uint64 {
		runtime.GC()
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	before := heap()
	reason := strings.Repeat("x", 7<<20)
	const n = 10
	for i := range uint32(n) {
		// echo returns a capability of the peer: pipelined calls come back to it.
		r.call(100+2*i, tp.Echo_TypeID, tp.Echo_cap.ID, toExport(e), capParam(func(d rpc.CapDescriptor) error { d.SetSenderHosted(5); return nil }))
		r.come(rpc.Message_Which_return)
		r.call(101+2*i, tp.Chain_TypeID, tp.Chain_depth.ID, toAnswer(100+2*i, 0))
		c, err := r.come(rpc.Message_Which_call).Call()
		vat.OK(t, err)
		q := c.QuestionId()
		r.send(func(m rpc.Message) error {
			ret, err := m.NewReturn()
			if err != nil {
				return err
			}
			ret.SetAnswerId(q)
			x, err := ret.NewException()
			if err != nil {
				return err
			}
			return x.SetReason(reason)
		})
		r.come(rpc.Message_Which_return)
	}
	if got := int64(heap()) - int64(before); got >= int64(len(reason)+16<<20) {
		t.Fatalf("the heap grew by %d bytes, want less than %d", got, int64(len(reason)+16<<20))
	}
	runtime.KeepAlive(reason)
}
