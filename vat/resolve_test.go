package vat_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"capnproto.org/go/capnp/v3"
	"capnproto.org/go/capnp/v3/std/capnp/rpc"

	"capd/vat"
	tp "capd/vat/internal/testproto"
)

// These tests resolve promises while something is on its way to them.

// loopback sends one half of a Disembargo.
func (r *raw) loopback(sender bool, id uint32, aim func(rpc.MessageTarget) error) {
	r.send(func(m rpc.Message) error {
		d, err := m.NewDisembargo()
		if err != nil {
			return err
		}
		if sender {
			d.Context().SetSenderLoopback(id)
		} else {
			d.Context().SetReceiverLoopback(id)
		}
		to, err := d.NewTarget()
		if err != nil || aim == nil {
			return err
		}
		return aim(to)
	})
}

func imported(id uint32) func(rpc.MessageTarget) error {
	return func(t rpc.MessageTarget) error { t.SetImportedCap(id); return nil }
}

// A gate's Echo.cap returns its parameter after the gate was opened.
type gate struct{ open chan struct{} }

var gateTable = vat.NewTable(vat.Handle(tp.Echo_cap, func(g *gate, c vat.Call[tp.Echo_cap_Params, tp.Echo_cap_Results]) error {
	<-g.open
	return c.Results().SetCap(c.Caps().Put(c.Caps().Get(c.Params().Cap()).AddRef()))
}))

// shut is a promise of this process that stays unresolved until the test ends.
func shut(t *testing.T) *vat.Cap {
	g := &gate{make(chan struct{})}
	c := vat.Serve(gateTable, g)
	a := vat.Send(t.Context(), c, tp.Echo_cap, nil)
	c.Release()
	p := a.Cap(0)
	a.Release()
	t.Cleanup(func() { close(g.open) })
	return p
}

// quiet waits for a while, and reports whether no call has come to the peer.
func (r *raw) quiet() bool {
	time.Sleep(100 * time.Millisecond)
	return r.conn.Stats().Questions == 0
}

// A promise that fails needs no embargo. An embargo would be a breach, because nothing leads back.
func TestFailureNeedsNoEmbargo(t *testing.T) {
	r := newRaw(t, vat.Limits{})
	r.hold(1, r.boot(), func(d rpc.CapDescriptor) error { d.SetSenderHosted(5); return nil })
	a := vat.Send(t.Context(), r.world.kept(), tp.Chain_next, nil)
	next := a.Cap(tp.Chain_next_Results_chain)
	piped := vat.Send(t.Context(), next, tp.Chain_depth, nil)
	q, _ := r.toImport()
	call, err := r.expect(rpc.Message_Which_call).Call()
	vat.OK(t, err)
	r.fail(q)
	r.fail(call.QuestionId())
	for range 2 { // and no Disembargo
		r.expect(rpc.Message_Which_finish)
	}
	_, _, err = piped.Await(t.Context())
	if err == nil {
		t.Fatal("piped.Await: no error")
	}
	_, err = depthOf(t.Context(), next)
	if err == nil {
		t.Fatal("depthOf: no error")
	}
	for _, c := range []interface{ Release() }{a, next, piped} {
		c.Release()
	}
}

// If a peer resolves each promise to the next without end, it is followed a limited number of times.
func TestChainOfPromises(t *testing.T) {
	r := newRaw(t, vat.Limits{})
	held := promises(r, r.boot()) // to 5
	defer held.Release()
	for p := range uint32(40) {
		r.resolve(5+p, func(d rpc.CapDescriptor) error { d.SetSenderPromise(6 + p); return nil })
	}
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	vat.OK(t, held.Settle(ctx))
	_, err := depthOf(ctx, held)
	if err == nil || !strings.Contains(err.Error(), "promises that resolve to promises") {
		t.Fatalf("depthOf: %v, want it to contain %q", err, "promises that resolve to promises")
	}
}

// A call may have chosen its way but not been sent when Resolve arrives. It is not sent after the Disembargo, which would
// then not push it ahead.
func TestCallDoesNotLeaveAfterItsDisembargo(t *testing.T) {
	r := newRaw(t, vat.Limits{})
	boot := r.boot()
	counter := r.get(1, boot, 1)
	held := promises(r, boot)
	defer held.Release()
	p2 := shut(t)
	arg := p2.AddRef()
	unlock := vat.LockPromise(p2)
	sent := make(chan *vat.Answer[tp.Counter_next_Results], 2)
	go func() {
		for tag := range uint32(2) {
			a := vat.Send(t.Context(), held, tp.Counter_next, func(q tp.Counter_next_Params, caps *vat.Caps) error {
				q.SetTag(tag)
				if tag == 0 {
					caps.Put(arg)
				}
				return nil
			})
			sent <- a
		}
	}()
	time.Sleep(50 * time.Millisecond)
	r.resolve(5, func(d rpc.CapDescriptor) error { d.SetReceiverHosted(counter); return nil })
	dis, err := r.expect(rpc.Message_Which_disembargo).Disembargo()
	vat.OK(t, err)
	unlock()
	p2.Release()
	a0, a1 := <-sent, <-sent
	if !r.quiet() {
		t.Fatal("r.quiet() = false, want true: it has left")
	}
	r.loopback(false, dis.Context().SenderLoopback(), nil)
	r0, _, err := a0.Await(t.Context())
	vat.OK(t, err)
	r1, _, err := a1.Await(t.Context())
	vat.OK(t, err)
	if got := r0.N(); got >= r1.N() {
		t.Fatalf("r0.N() = %d, want less than %d", got, r1.N())
	}
	a0.Release()
	a1.Release()
}

// After it was checked whether a promise was called, no call is sent on the old way.
func TestNoCallWhileAPromiseIsRedirected(t *testing.T) {
	r := newRaw(t, vat.Limits{})
	boot := r.boot()
	counter := r.get(1, boot, 1)
	held := promises(r, boot)
	defer held.Release()
	unlock := vat.LockResolving()
	r.resolve(5, func(d rpc.CapDescriptor) error { d.SetReceiverHosted(counter); return nil })
	time.Sleep(50 * time.Millisecond)
	a0 := next(t, held, 0)
	if !r.quiet() {
		t.Fatal("r.quiet() = false, want true: it has left by the old way")
	}
	unlock()
	a1 := next(t, held, 1)
	r0, _, err := a0.Await(t.Context())
	vat.OK(t, err)
	r1, _, err := a1.Await(t.Context())
	vat.OK(t, err)
	if got := r0.N(); got >= r1.N() {
		t.Fatalf("r0.N() = %d, want less than %d", got, r1.N())
	}
}

// The same if it becomes another promise of the peer.
func TestCalledIsHandedOn(t *testing.T) {
	r := newRaw(t, vat.Limits{})
	boot := r.boot()
	held := promises(r, boot)
	defer held.Release()
	unlock := vat.LockResolving()
	r.resolve(5, func(d rpc.CapDescriptor) error { d.SetSenderPromise(6); return nil })
	time.Sleep(50 * time.Millisecond)
	a0 := next(t, held, 0)
	if !r.quiet() {
		t.Fatal("r.quiet() = false, want true: it has left by the old way")
	}
	unlock()
	defer a0.Release()
	for {
		m, ok := r.recv()
		if !ok {
			t.Fatal("the connection has ended")
		}
		if c, err := m.Call(); m.Which() == rpc.Message_Which_call {
			vat.OK(t, err)
			to, _ := c.Target()
			if got := to.ImportedCap(); got != 6 {
				t.Fatalf("to.ImportedCap() = %d, want 6", got)
			}
			return
		}
	}
}

// The parameters of a call may be examined before Resolve arrives. The call does not name what was released at that
// moment, because the number may be reused.
func TestNoDescriptorOfWhatWasReleased(t *testing.T) {
	r := newRaw(t, vat.Limits{})
	boot := r.boot()
	chain := r.get(1, boot, 2)
	held := promises(r, boot)
	r.hold(20, boot, func(d rpc.CapDescriptor) error { d.SetSenderHosted(8); return nil })
	r.world.held.Lock()
	to := r.world.held.cap.AddRef()
	r.world.held.Unlock()
	defer to.Release()
	p2 := shut(t)
	arg, arg2 := held.AddRef(), p2.AddRef()
	unlock := vat.LockPromise(p2)
	sent := make(chan *vat.Answer[tp.Counter_next_Results], 1)
	go func() {
		sent <- vat.Send(t.Context(), to, tp.Counter_next, func(q tp.Counter_next_Params, caps *vat.Caps) error {
			caps.Put(arg)
			caps.Put(arg2)
			return nil
		})
	}()
	time.Sleep(50 * time.Millisecond)
	r.resolve(5, func(d rpc.CapDescriptor) error { d.SetReceiverHosted(chain); return nil })
	rel, err := r.expect(rpc.Message_Which_release).Release()
	vat.OK(t, err)
	if got := rel.Id(); got != 5 {
		t.Fatalf("rel.Id() = %d, want 5", got)
	}
	unlock()
	p2.Release()
	a := <-sent
	call, err := r.expect(rpc.Message_Which_call).Call()
	vat.OK(t, err)
	p, err := call.Params()
	vat.OK(t, err)
	l, err := p.CapTable()
	vat.OK(t, err)
	if d := l.At(0); d.Which() == rpc.CapDescriptor_Which_receiverHosted && d.ReceiverHosted() == 5 {
		t.Error("the call names the peer's export 5, which was released before: by now that may be anything")
	}
	r.fail(call.QuestionId())
	a.Await(t.Context())
	a.Release()
	held.Release()
}

// promisedBy makes the server export a promise, which becomes what desc describes when the gate opens.
func (r *raw) promisedBy(boot uint32, g *gate, desc func(rpc.CapDescriptor) error) (id uint32) {
	r.t.Helper()
	// the gate is given to the peer as the result of hold
	r.world.held.Lock()
	old := r.world.held.cap
	r.world.held.cap = vat.Serve(gateTable, g)
	r.world.held.Unlock()
	old.Release()
	gid := r.get(30, boot, tp.Server_held.ID)
	e := r.get(31, boot, 0)
	r.call(32, tp.Echo_TypeID, tp.Echo_cap.ID, toExport(gid), capParam(desc))
	r.call(33, tp.Echo_TypeID, tp.Echo_cap.ID, toExport(e), capParam(func(d rpc.CapDescriptor) error { return promised(d.NewReceiverAnswer())(32, []uint16{0}) }))
	d := r.descriptor(33)
	if got := d.Which(); got != rpc.CapDescriptor_Which_senderPromise {
		r.t.Fatalf("d.Which() = %v, want %v", got, rpc.CapDescriptor_Which_senderPromise)
	}
	return d.SenderPromise()
}

// resolved reads what the promise has become.
func (r *raw) resolved(id uint32) rpc.CapDescriptor {
	r.t.Helper()
	for {
		m, ok := r.recv()
		if !ok {
			r.t.Fatal("the connection has ended")
		}
		if m.Which() == rpc.Message_Which_resolve {
			res, err := m.Resolve()
			vat.OK(r.t, err)
			if got := res.PromiseId(); got != id {
				r.t.Fatalf("res.PromiseId() = %d, want %d", got, id)
			}
			d, err := res.Cap()
			vat.OK(r.t, err)
			return d
		}
	}
}

// comesBack reads until a Disembargo comes.
func (r *raw) comesBack() {
	r.t.Helper()
	for {
		m, ok := r.recv()
		if !ok {
			r.t.Fatal("ended")
		}
		switch m.Which() {
		case rpc.Message_Which_abort:
			e, _ := m.Abort()
			s, _ := e.Reason()
			r.t.Fatalf("an honest peer is aborted: %s", s)
		case rpc.Message_Which_disembargo:
			return
		}
	}
}

// The server has said that its promise is the peer's promise 5, which meanwhile has become the server's own. The peer's
// Disembargo comes back through 5 (rpc.capnp, "The Tribble 4-way Race Condition").
func TestDisembargoGoesWhereResolveSaid(t *testing.T) {
	r := newRaw(t, vat.Limits{})
	boot := r.boot()
	chain := r.get(1, boot, 2)
	g := &gate{make(chan struct{})}
	id := r.promisedBy(boot, g, func(d rpc.CapDescriptor) error { d.SetSenderPromise(5); return nil })
	close(g.open)
	d := r.resolved(id)
	if got := d.Which(); got != rpc.CapDescriptor_Which_receiverHosted {
		t.Fatalf("d.Which() = %v, want %v", got, rpc.CapDescriptor_Which_receiverHosted)
	}
	if got := d.ReceiverHosted(); got != 5 {
		t.Fatalf("d.ReceiverHosted() = %d, want 5", got)
	}
	r.resolve(5, func(d rpc.CapDescriptor) error { d.SetReceiverHosted(chain); return nil }) // on its way when that came
	r.loopback(true, 77, imported(id))
	r.comesBack()
}

// So does a call, which stays behind those that went that way.
func TestCallGoesWhereResolveSaid(t *testing.T) {
	r := newRaw(t, vat.Limits{})
	boot := r.boot()
	chain := r.get(1, boot, 2)
	g := &gate{make(chan struct{})}
	id := r.promisedBy(boot, g, func(d rpc.CapDescriptor) error { d.SetSenderPromise(5); return nil })
	close(g.open)
	r.resolved(id)
	r.resolve(5, func(d rpc.CapDescriptor) error { d.SetReceiverHosted(chain); return nil })
	r.call(60, tp.Chain_TypeID, tp.Chain_depth.ID, toExport(id))
	for {
		m, ok := r.recv()
		if !ok {
			t.Fatal("the connection has ended")
		}
		switch m.Which() {
		case rpc.Message_Which_call:
			c, _ := m.Call()
			to, _ := c.Target()
			if got := to.ImportedCap(); got != 5 {
				t.Fatalf("to.ImportedCap() = %d, want 5", got)
			}
			r.fail(c.QuestionId())
			return
		case rpc.Message_Which_return:
			ret, _ := m.Return()
			if ret.AnswerId() == 60 {
				t.Fatal("the call did not go to 5, to which the server had said that P leads")
			}
		}
	}
}

// A peer that reads a large answer slowly but steadily is not idle.
func TestSlowReaderIsNotIdle(t *testing.T) {
	r := newRaw(t, vat.Limits{IdleTimeout: 100 * time.Millisecond})
	e := r.get(1, r.boot(), 0)
	const size = 7 << 20
	r.call(2, tp.Echo_TypeID, tp.Echo_data.ID, toExport(e), params(capnp.ObjectSize{DataSize: 8}, 0, func(s capnp.Struct, _ rpc.CapDescriptor_List) error {
		s.SetUint32(0, size)
		return nil
	}))
	got, buf := 0, make([]byte, 128<<10)
	for got < size {
		n, err := r.nc.Read(buf)
		got += n
		if err != nil {
			t.Fatalf("cut after %d of %d bytes: %v; %v", got, size, err, r.conn.Err())
		}
		time.Sleep(10 * time.Millisecond)
	}
}

// Neither is a peer that sends a large message in this way.
func TestSlowWriterIsNotIdle(t *testing.T) {
	r := newRaw(t, vat.Limits{IdleTimeout: 100 * time.Millisecond, FrameTimeout: 10 * time.Second})
	r.boot()
	const size = 1 << 20
	_, err := r.nc.Write(header(size))
	vat.OK(t, err)
	for range 64 {
		time.Sleep(10 * time.Millisecond)
		if _, err := r.nc.Write(make([]byte, size/64)); err != nil {
			t.Fatalf("cut: %v; %v", err, r.conn.Err())
		}
	}
}

// gateAt makes the peer hold a gate.
func (r *raw) gateAt(q, boot uint32, g *gate) uint32 {
	r.world.held.Lock()
	old := r.world.held.cap
	r.world.held.cap = vat.Serve(gateTable, g)
	r.world.held.Unlock()
	old.Release()
	r.call(q, tp.Server_TypeID, tp.Server_held.ID, toExport(boot))
	p, err := r.back(q, rpc.Return_Which_results).Results()
	vat.OK(r.t, err)
	l, err := p.CapTable()
	vat.OK(r.t, err)
	return l.At(0).SenderHosted()
}

// A call that waited for a promise which turned out to be the peer's own is made, also if a Disembargo for it has been
// sent.
func TestCallThatWaitedGoesWhereResolveSaid(t *testing.T) {
	r := newRaw(t, vat.Limits{})
	boot := r.boot()
	chain := r.get(1, boot, 2)
	g := &gate{make(chan struct{})}
	id := r.promisedBy(boot, g, func(d rpc.CapDescriptor) error { d.SetSenderPromise(5); return nil })
	close(g.open)
	d := r.resolved(id)
	if got := d.Which(); got != rpc.CapDescriptor_Which_receiverHosted {
		t.Fatalf("d.Which() = %v, want %v", got, rpc.CapDescriptor_Which_receiverHosted)
	}
	if got := d.ReceiverHosted(); got != 5 {
		t.Fatalf("d.ReceiverHosted() = %d, want 5", got)
	}
	r.come(rpc.Message_Which_return) // of 32
	held := promises(r, boot)        // 5 again
	first := vat.Send(t.Context(), held, tp.Chain_depth, nil)
	defer first.Release()
	qq, err := r.come(rpc.Message_Which_call).Call()
	vat.OK(t, err)
	g2 := &gate{make(chan struct{})}
	gid := r.gateAt(50, boot, g2)
	// it has not yet been told that id has become 5
	r.call(51, tp.Echo_TypeID, tp.Echo_cap.ID, toExport(gid), capParam(func(d rpc.CapDescriptor) error { d.SetReceiverHosted(id); return nil }))
	r.call(52, tp.Chain_TypeID, tp.Chain_depth.ID, toAnswer(51, 0))
	r.resolve(5, func(d rpc.CapDescriptor) error { d.SetReceiverHosted(chain); return nil })
	dis, err := r.come(rpc.Message_Which_disembargo).Disembargo()
	vat.OK(t, err)
	r.loopback(false, dis.Context().SenderLoopback(), nil)
	close(g2.open)
	r.fail(qq.QuestionId())
	defer held.Release()
	for {
		m, ok := r.recv()
		if !ok {
			t.Fatal("the connection has ended")
		}
		if m.Which() == rpc.Message_Which_call {
			c, _ := m.Call()
			to, _ := c.Target()
			if got := to.ImportedCap(); got != 5 {
				t.Fatalf("to.ImportedCap() = %d, want 5", got)
			}
			r.fail(c.QuestionId())
			return
		}
	}
}

// A resolution in a Return counts like one in a Resolve.
func TestDisembargoGoesWhereReturnSaid(t *testing.T) {
	r := newRaw(t, vat.Limits{})
	boot := r.boot()
	chain := r.get(1, boot, 2)
	e := r.get(31, boot, 0)
	r.call(33, tp.Echo_TypeID, tp.Echo_cap.ID, toExport(e), capParam(func(d rpc.CapDescriptor) error { d.SetSenderPromise(5); return nil }))
	r.resolve(5, func(d rpc.CapDescriptor) error { d.SetReceiverHosted(chain); return nil })
	d := r.descriptor(33)
	if got := d.Which(); got != rpc.CapDescriptor_Which_receiverHosted {
		t.Fatalf("d.Which() = %v, want %v", got, rpc.CapDescriptor_Which_receiverHosted)
	}
	if got := d.ReceiverHosted(); got != 5 {
		t.Fatalf("d.ReceiverHosted() = %d, want 5", got)
	}
	r.loopback(true, 77, func(m rpc.MessageTarget) error { return promised(m.NewPromisedAnswer())(33, []uint16{0}) })
	r.comesBack()
}
