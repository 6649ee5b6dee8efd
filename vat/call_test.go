package vat_test

import (
	"context"
	"errors"
	"net"
	"strings"
	"testing"
	"time"

	"capd/vat"
	tp "capd/vat/internal/testproto"
)

func TestEcho(t *testing.T) {
	p := connect(t, vat.Limits{})
	e := p.echoCap(t)
	defer e.Release()
	for _, text := range []string{"", "hello", strings.Repeat("x", 100_000)} {
		got, err := echo(t.Context(), e, text)
		vat.OK(t, err)
		if got != text {
			t.Errorf("echo = %q, want %q", got, text)
		}
	}
}

func TestEchoOverPipe(t *testing.T) {
	a, b := net.Pipe()
	p := connectOver(t, a, b, vat.Limits{})
	e := p.echoCap(t)
	defer e.Release()
	got, err := echo(t.Context(), e, "hello")
	vat.OK(t, err)
	if got != "hello" {
		t.Errorf("echo = %q, want %q", got, "hello")
	}
}

func TestData(t *testing.T) {
	p := connect(t, vat.Limits{})
	e := p.echoCap(t)
	defer e.Release()
	for _, n := range []uint32{0, 1, 4 << 10, 64 << 10, 256 << 10, 1 << 20, 5 << 20} {
		err := vat.Do(t.Context(), e, tp.Echo_data, func(q tp.Echo_data_Params, _ *vat.Caps) error { q.SetSize(n); return nil },
			func(r tp.Echo_data_Results, _ *vat.Caps) error {
				d, err := r.Data()
				vat.OK(t, err)
				if len(d) != int(n) {
					t.Fatalf("%d bytes, want %d", len(d), n)
				}
				for i := range d {
					if d[i] != byte(i) {
						t.Fatalf("size %d: byte %d is wrong", n, i)
					}
				}
				return nil
			})
		vat.OK(t, err)
	}
}

func TestExceptions(t *testing.T) {
	p := connect(t, vat.Limits{})
	e := p.echoCap(t)
	defer e.Release()
	fail := func(kind uint16, reason string) *vat.Exception {
		err := vat.Do(t.Context(), e, tp.Echo_fail, func(q tp.Echo_fail_Params, _ *vat.Caps) error {
			q.SetKind(kind)
			return q.SetReason(reason)
		}, nil)
		var exc *vat.Exception
		if !errors.As(err, &exc) {
			t.Fatalf("kind %d: %v, want a %T", kind, err, exc)
		}
		return exc
	}
	for kind := range uint16(4) {
		if got := fail(kind, "why"); got.Type != vat.ExceptionType(kind) || got.Reason != "why" || !got.Remote() || got.Own() || got.Unwrap() != nil {
			t.Errorf(`fail(kind, "why") = %+v`, got)
		}
	}
	if got, want := fail(99, "").Reason, "internal error"; got != want {
		t.Errorf(`fail(99, "").Reason = %q, want %q: the text of an unknown error stays here`, got, want)
	}

	err := vat.Do(t.Context(), e, tp.Echo_crash, nil, nil)
	if err == nil || !strings.Contains(err.Error(), "internal error") {
		t.Errorf("vat.Do: %v, want it to contain %q", err, "internal error")
	}
	_, err = echo(t.Context(), e, "still here")
	if err != nil {
		t.Errorf("echo: %v: a panic is one call's failure", err)
	}

	var exc *vat.Exception
	if err := vat.Do(t.Context(), e, tp.Chain_depth, nil, nil); !errors.As(err, &exc) {
		t.Fatalf("vat.Do(e, tp.Chain_depth, nil, nil): %v, want a %T", err, exc)
	}
	if exc.Type != vat.Unimplemented {
		t.Errorf("exc.Type = %v, want %v: a method of another interface", exc.Type, vat.Unimplemented)
	}
	if err := vat.Do(t.Context(), nil, tp.Chain_depth, nil, nil); !errors.As(err, &exc) {
		t.Fatalf("vat.Do(nil, tp.Chain_depth, nil, nil): %v, want a %T", err, exc)
	}
	if exc == nil || !strings.Contains(exc.Error(), "null capability") {
		t.Errorf("a call on nothing: %v, want it to contain %q", exc, "null capability")
	}
}

func TestPipelineFourDeep(t *testing.T) {
	p := connect(t, vat.Limits{})
	c := p.root(t)
	for range 4 {
		a := vat.Send(t.Context(), c, tp.Chain_next, nil)
		c.Release()
		c = a.Cap(tp.Chain_next_Results_chain)
		a.Release()
	}
	n, err := depthOf(t.Context(), c)
	c.Release()
	vat.OK(t, err)
	if n != 4 {
		t.Errorf("depth = %d, want 4", n)
	}
}

func TestPipelineOnSlowCalls(t *testing.T) {
	p := connect(t, vat.Limits{})
	c := p.root(t)
	for range 4 {
		a := vat.Send(t.Context(), c, tp.Chain_slowNext, func(q tp.Chain_slowNext_Params, _ *vat.Caps) error { q.SetMs(5); return nil })
		c.Release()
		c = a.Cap(tp.Chain_slowNext_Results_chain)
		a.Release()
	}
	n, err := depthOf(t.Context(), c)
	c.Release()
	vat.OK(t, err)
	if n != 4 {
		t.Errorf("depth = %d, want 4", n)
	}
}

func TestPipelineThroughStruct(t *testing.T) {
	p := connect(t, vat.Limits{})
	c := p.root(t)
	defer c.Release()
	a := vat.Send(t.Context(), c, tp.Chain_nested, nil)
	defer a.Release()
	d := a.Cap(tp.Chain_nested_Results_node, tp.Chain_Node_chain)
	defer d.Release()
	n, err := depthOf(t.Context(), d)
	vat.OK(t, err)
	if n != 1 {
		t.Errorf("depth = %d, want 1", n)
	}
	_, _, err = a.Await(t.Context())
	vat.OK(t, err)
	n, err = depthOf(t.Context(), d)
	vat.OK(t, err)
	if n != 1 {
		t.Errorf("depth = %d, want 1: after it resolved", n)
	}
}

func TestPipelineOnNothing(t *testing.T) {
	p := connect(t, vat.Limits{})
	c := p.root(t)
	defer c.Release()
	a := vat.Send(t.Context(), c, tp.Chain_none, nil)
	defer a.Release()
	d := a.Cap(tp.Chain_none_Results_chain)
	defer d.Release()
	_, err := depthOf(t.Context(), d)
	if err == nil || !strings.Contains(err.Error(), "null capability") {
		t.Errorf("depthOf: %v, want it to contain %q", err, "null capability")
	}
}

func TestPipelineOnFailure(t *testing.T) {
	p := connect(t, vat.Limits{})
	e := p.echoCap(t)
	defer e.Release()
	a := vat.Send(t.Context(), e, tp.Echo_fail, func(q tp.Echo_fail_Params, _ *vat.Caps) error { return q.SetReason("broken") })
	defer a.Release()
	d := a.Cap(0)
	defer d.Release()
	_, err := depthOf(t.Context(), d)
	if err == nil || !strings.Contains(err.Error(), "broken") {
		t.Errorf("depthOf: %v, want it to contain %q", err, "broken")
	}
}

type callbackObj struct {
	f        func(uint32) uint32
	released chan struct{}
}

func (c *callbackObj) Release() { close(c.released) }

var callbackTable = vat.NewTable(vat.Handle(tp.Callback_call, func(o *callbackObj, c vat.Call[tp.Callback_call_Params, tp.Callback_call_Results]) error {
	c.Results().SetN(o.f(c.Params().N()))
	return nil
}))

func TestCallback(t *testing.T) {
	p := connect(t, vat.Limits{})
	obj := &callbackObj{func(n uint32) uint32 { return n * 2 }, make(chan struct{})}
	cb := vat.Serve(callbackTable, obj)
	var got uint32
	err := vat.Do(t.Context(), p.boot, tp.Server_invoke, func(q tp.Server_invoke_Params, caps *vat.Caps) error {
		q.SetN(21)
		return q.SetCallback(caps.Put(cb.AddRef()))
	}, func(r tp.Server_invoke_Results, _ *vat.Caps) error { got = r.N(); return nil })
	vat.OK(t, err)
	if got != 42 {
		t.Errorf("the callback answered %d, want 42", got)
	}
	cb.Release()
	select {
	case <-obj.released:
	case <-time.After(patience):
		t.Error("the server kept the callback")
	}
}

func TestOwnCapabilityComesBack(t *testing.T) {
	p := connect(t, vat.Limits{})
	isLocal := func(c *vat.Cap) (local bool) {
		err := vat.Do(t.Context(), p.boot, tp.Server_isLocal, func(q tp.Server_isLocal_Params, caps *vat.Caps) error {
			return q.SetCap(caps.Put(c.AddRef()))
		}, func(r tp.Server_isLocal_Results, _ *vat.Caps) error { local = r.Local(); return nil })
		vat.OK(t, err)
		return local
	}
	c := p.root(t)
	defer c.Release()
	if !isLocal(c) {
		t.Error("isLocal(c) = false, want true: as a promised answer, resolved when it is looked at")
	}
	_, err := depthOf(t.Context(), c)
	vat.OK(t, err)
	if !isLocal(c) {
		t.Error("isLocal(c) = false, want true: as an import")
	}
	cb := vat.Serve(callbackTable, &callbackObj{nil, make(chan struct{})})
	defer cb.Release()
	if isLocal(cb) {
		t.Error("isLocal(cb) = true, want false")
	}
	if isLocal(nil) {
		t.Error("isLocal(nil) = true, want false")
	}

	// A capability of the client comes back to the client.
	e := p.echoCap(t)
	defer e.Release()
	err = vat.Do(t.Context(), e, tp.Echo_cap, func(q tp.Echo_cap_Params, caps *vat.Caps) error { return q.SetCap(caps.Put(cb.AddRef())) },
		func(r tp.Echo_cap_Results, caps *vat.Caps) error {
			_, ok := vat.Local[*callbackObj](caps.Get(r.Cap()))
			if !ok {
				t.Error("the callback is not known to be the client's own")
			}
			return nil
		})
	vat.OK(t, err)
}

func TestLocalCalls(t *testing.T) {
	w := newWorld()
	c := w.chain(0)
	n, err := depthOf(t.Context(), c)
	vat.OK(t, err)
	if n != 0 {
		t.Errorf("depth = %d, want 0", n)
	}
	a := vat.Send(t.Context(), c, tp.Chain_slowNext, func(q tp.Chain_slowNext_Params, _ *vat.Caps) error { q.SetMs(10); return nil })
	d := a.Cap(tp.Chain_slowNext_Results_chain)
	a.Release()
	n, err = depthOf(t.Context(), d)
	vat.OK(t, err)
	if n != 1 {
		t.Errorf("depth = %d, want 1: pipelined on a local call", n)
	}
	c.Release()
	c.Release() // harmless
	d.Release()
	soon(t, func() bool { return w.live.Load() == 0 }, "objects leaked")
	if got := w.released.Load(); got != 2 {
		t.Errorf("w.released.Load() = %d, want 2", got)
	}
	_, err = depthOf(t.Context(), c)
	if err == nil || !strings.Contains(err.Error(), "released") {
		t.Errorf("depthOf: %v, want it to contain %q", err, "released")
	}
}

func TestCancel(t *testing.T) {
	p := connect(t, vat.Limits{})
	e := p.echoCap(t)
	defer e.Release()
	a := vat.Send(t.Context(), e, tp.Echo_sleep, func(q tp.Echo_sleep_Params, _ *vat.Caps) error { q.SetMs(60_000); return nil })
	soon(t, func() bool { return p.asleep.Load() == 1 }, "not called")
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	_, _, err := a.Await(ctx)
	if !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("a.Await: %v, want %v", err, context.DeadlineExceeded)
	}
	a.Release()
	soon(t, func() bool { return len(p.cancelled) == 1 }, "the handler's context goes on")
	soon(t, func() bool { return p.server.Stats().Answers == 0 }, "the answer stays open")
	soon(t, func() bool { return p.client.Stats().Questions == 0 }, "the question stays open")
}

func TestCancelReachesWhatIsPipelinedOn(t *testing.T) {
	p := connect(t, vat.Limits{})
	c := p.root(t)
	defer c.Release()
	a := vat.Send(t.Context(), c, tp.Chain_slowNext, func(q tp.Chain_slowNext_Params, _ *vat.Caps) error { q.SetMs(60_000); return nil })
	d := a.Cap(tp.Chain_slowNext_Results_chain)
	a.Release() // early: the call goes on, since d is in use
	b := vat.Send(t.Context(), d, tp.Chain_depth, nil)
	d.Release()
	soon(t, func() bool { return p.slow.Load() == 1 }, "not called")
	select {
	case <-p.cancelled:
		t.Fatal("cancelled while a pipelined call waits for it")
	case <-time.After(20 * time.Millisecond):
	}
	b.Release()
	soon(t, func() bool { return len(p.cancelled) == 1 }, "not cancelled when nobody waits any more")
}

func TestStream(t *testing.T) {
	p := connect(t, vat.Limits{})
	a := vat.Send(t.Context(), p.boot, tp.Server_stream, nil)
	s := a.Cap(tp.Server_stream_Results_stream)
	a.Release()
	defer s.Release()
	chunk := make([]byte, 64<<10)
	for range 200 {
		w := vat.Send(t.Context(), s, tp.Stream_write, func(q tp.Stream_write_Params, _ *vat.Caps) error { return q.SetData(chunk) })
		w.Release() // not a cancellation
	}
	vat.OK(t, s.Drain(t.Context()))
	err := vat.Do(t.Context(), s, tp.Stream_done, nil, func(r tp.Stream_done_Results, _ *vat.Caps) error {
		if got := r.Bytes(); got != 200*64<<10 {
			t.Errorf("r.Bytes() = %d, want %d", got, 200*64<<10)
		}
		if got := r.Writes(); got != 200 {
			t.Errorf("r.Writes() = %d, want 200", got)
		}
		return nil
	})
	vat.OK(t, err)
}

// Calls that nobody waits for reach the peer, also those on an outcome that is not there yet.
func TestNobodyWaits(t *testing.T) {
	p := connect(t, vat.Limits{})
	for round := range 3 { // from the second on, the first call too leaves with those made of its outcome
		a := vat.Send(t.Context(), p.boot, tp.Server_chain, nil)
		defer a.Release()
		c := a.Cap(tp.Server_chain_Results_chain)
		defer c.Release()
		for range 3 {
			b := vat.Send(t.Context(), c, tp.Chain_next, nil)
			defer b.Release()
			c = b.Cap(tp.Chain_next_Results_chain)
			defer c.Release()
		}
		soon(t, func() bool { return int(p.live.Load()) == 4*(round+1) }, "the calls have not arrived")
	}
}

// A call is sent at once, unless the outcome of the last call of its method was the target of other calls.
func TestPipelinedMethods(t *testing.T) {
	p := connect(t, vat.Limits{})
	vat.OK(t, p.boot.Settle(t.Context()))
	stays := func() bool {
		a := vat.Send(t.Context(), p.boot, tp.Server_chain, nil)
		defer a.Release()
		parked := p.client.Stats().ParkedBytes
		_, _, err := a.Await(t.Context())
		vat.OK(t, err)
		return parked > 0
	}
	pipeline := func() {
		a := vat.Send(t.Context(), p.boot, tp.Server_chain, nil)
		defer a.Release()
		c := a.Cap(tp.Server_chain_Results_chain)
		defer c.Release()
		vat.OK(t, vat.Do(t.Context(), c, tp.Chain_depth, nil, nil))
	}
	soon(t, func() bool { return !stays() }, "a call stays that nothing is likely to follow")
	stayed, wrongly := 0, 0
	for range 100 { // 0.5 ms may be over before anybody looks, and a Finish be on its way
		pipeline()
		if stays() {
			stayed++
		}
		if stays() {
			wrongly++
		}
	}
	if stayed == 0 {
		t.Fatal("no call stays after one whose outcome was the target of others")
	}
	if wrongly >= 20 {
		t.Fatalf("%d of 100 calls stay after one whose outcome was no target, want less than 20", wrongly)
	}
}

// A capability pointer that is copied from one message to another means something else there. The call fails, and nothing
// is released.
func TestCopiedCapabilityPointer(t *testing.T) {
	p := connect(t, vat.Limits{})
	c := p.asks(t, vat.Serve(vat.NewTable(vat.Handle(tp.Echo_cap, func(_ *struct{}, c vat.Call[tp.Echo_cap_Params, tp.Echo_cap_Results]) error {
		return c.Results().SetCap(c.Params().Cap())
	})), &struct{}{}))
	defer c.Release()
	own := newWorld()
	err := vat.Do(t.Context(), c, tp.Echo_cap, func(q tp.Echo_cap_Params, caps *vat.Caps) error {
		return q.SetCap(caps.Put(own.serve(&echoObj{tracked{own}})))
	}, nil)
	if err == nil || err.Error() != "internal error" {
		t.Fatalf("vat.Do: %v, want %q", err, "internal error")
	}
	soon(t, func() bool { return own.live.Load() == 0 }, "the capability stays")
}

// The reason why a handler's own call was not sent stays in this process. The caller of the handler does not see it.
func TestWhyACallWasNotSentStaysHere(t *testing.T) {
	p := connect(t, vat.Limits{})
	secret := errors.New("open /etc/secret: no such file")
	var seen error
	c := p.asks(t, vat.Serve(vat.NewTable(vat.Handle(tp.Echo_cap, func(_ *struct{}, c vat.Call[tp.Echo_cap_Params, tp.Echo_cap_Results]) error {
		back := c.Caps().Get(c.Params().Cap())
		seen = vat.Do(c.Context(), back, tp.Echo_echo, func(tp.Echo_echo_Params, *vat.Caps) error { return secret }, nil)
		return seen
	})), &struct{}{}))
	defer c.Release()
	own := newWorld()
	mine := own.serve(&echoObj{tracked{own}})
	err := vat.Do(t.Context(), c, tp.Echo_cap, func(q tp.Echo_cap_Params, caps *vat.Caps) error { return q.SetCap(caps.Put(mine)) }, nil)
	if err == nil || err.Error() != "internal error" {
		t.Fatalf("vat.Do: %v, want %q", err, "internal error")
	}
	if !errors.Is(seen, secret) {
		t.Fatalf("the handler sees %v, want %v", seen, secret)
	}
	if seen == nil || !strings.Contains(seen.Error(), "Echo.echo was not sent: open /etc/secret") {
		t.Fatalf("the handler sees %v, want it to contain %q", seen, "Echo.echo was not sent: open /etc/secret")
	}
}
