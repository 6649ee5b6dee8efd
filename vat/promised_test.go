package vat_test

import (
	"testing"
	"time"

	"capnproto.org/go/capnp/v3"
	"capnproto.org/go/capnp/v3/std/capnp/rpc"

	"capd/vat"
	tp "capd/vat/internal/testproto"
)

// A promise of the peer may resolve to another promise of the peer. Calls still go the same way, so a Disembargo is
// neither necessary nor allowed (rpc.capnp, Disembargo).

// late is the server's own promise of c, which is resolved late.
func late(t *testing.T, c *vat.Cap, ms uint32) *vat.Cap {
	a := vat.Send(t.Context(), c, tp.Chain_slowNext, func(q tp.Chain_slowNext_Params, _ *vat.Caps) error { q.SetMs(ms); return nil })
	defer a.Release()
	return a.Cap(tp.Chain_slowNext_Results_chain)
}

// The outcome of a call is a promise of the peer, and was called before that was known.
func TestOutcomeIsThePeersPromise(t *testing.T) {
	p := connect(t, vat.Limits{})
	chain := p.root(t)
	defer chain.Release()
	e := p.echoCap(t)
	defer e.Release()
	promised := late(t, chain, 50)
	defer promised.Release()
	a := vat.Send(t.Context(), e, tp.Echo_cap, func(q tp.Echo_cap_Params, caps *vat.Caps) error {
		return q.SetCap(caps.Put(promised.AddRef()))
	})
	defer a.Release()
	back := a.Cap(tp.Echo_cap_Results_cap)
	defer back.Release()
	early := vat.Send(t.Context(), back, tp.Chain_depth, nil)
	defer early.Release()
	_, _, err := a.Await(t.Context())
	vat.OK(t, err)
	depth, err := depthOf(t.Context(), back)
	vat.OK(t, err)
	if depth != 1 {
		t.Errorf("depth = %d, want 1", depth)
	}
	_, _, err = early.Await(t.Context())
	vat.OK(t, err)
	if err := p.client.Err(); err != nil {
		t.Errorf("p.client.Err(): %v", err)
	}
	if err := p.server.Err(); err != nil {
		t.Errorf("p.server.Err(): %v", err)
	}
}

// promises gives the server the peer's promise 5, and returns what the server holds.
func promises(r *raw, boot uint32) (held *vat.Cap) {
	r.t.Helper()
	r.hold(2, boot, func(d rpc.CapDescriptor) error { d.SetSenderPromise(5); return nil })
	r.world.held.Lock()
	held = r.world.held.cap.AddRef()
	r.world.held.Unlock()
	return held
}

// toImport reads a Call, and returns its target.
func (r *raw) toImport() (question, id uint32) {
	r.t.Helper()
	call, err := r.expect(rpc.Message_Which_call).Call()
	vat.OK(r.t, err)
	target, err := call.Target()
	vat.OK(r.t, err)
	if got := target.Which(); got != rpc.MessageTarget_Which_importedCap {
		r.t.Fatalf("target.Which() = %v, want %v", got, rpc.MessageTarget_Which_importedCap)
	}
	return call.QuestionId(), target.ImportedCap()
}

// fail answers a call of the other side with a failure.
func (r *raw) fail(q uint32) {
	r.t.Helper()
	r.send(func(m rpc.Message) error {
		ret, err := m.NewReturn()
		if err != nil {
			return err
		}
		ret.SetAnswerId(q)
		e, err := ret.NewException()
		if err != nil {
			return err
		}
		return e.SetReason("enough")
	})
}

// The promise 5 resolves to the promise 6, and this to the server's own capability. Calls on 5 are still on their way.
// The embargo of the second resolution names 6, although nothing was called through 6.
func TestPromiseResolvesToAPromise(t *testing.T) {
	r := newRaw(t, vat.Limits{})
	boot := r.boot()
	chain := r.get(1, boot, 2)
	held := promises(r, boot)
	first := vat.Send(t.Context(), held, tp.Chain_depth, nil)
	q, id := r.toImport()
	if id != 5 {
		t.Fatalf("id = %d, want 5", id)
	}
	r.resolve(5, func(d rpc.CapDescriptor) error { d.SetSenderPromise(6); return nil })
	r.resolve(6, func(d rpc.CapDescriptor) error { d.SetReceiverHosted(chain); return nil })
	var lift uint32
	for named := false; !named; {
		m, ok := r.recv()
		if !ok {
			t.Fatal("the connection has ended")
		}
		if m.Which() == rpc.Message_Which_release { // of 5
			continue
		}
		dis, err := m.Disembargo()
		vat.OK(t, err)
		lift = dis.Context().SenderLoopback()
		target, err := dis.Target()
		vat.OK(t, err)
		if got := target.ImportedCap(); got != 6 {
			t.Fatalf("target.ImportedCap() = %d, want 6", got)
		}
		named = true
	}
	second := vat.Send(t.Context(), held, tp.Chain_depth, nil)
	r.send(func(m rpc.Message) error {
		d, err := m.NewDisembargo()
		if err != nil {
			return err
		}
		d.Context().SetReceiverLoopback(lift)
		_, err = d.NewTarget()
		return err
	})
	_, _, err := second.Await(t.Context())
	vat.OK(t, err)
	r.fail(q)
	_, _, err = first.Await(t.Context())
	if err == nil || err.Error() != "enough" {
		t.Fatalf("first.Await: %v, want %q", err, "enough")
	}
	first.Release()
	second.Release()
	held.Release()
}

// A promise that was not called needs no embargo.
func TestPromiseThatWasNotCalled(t *testing.T) {
	r := newRaw(t, vat.Limits{})
	boot := r.boot()
	chain := r.get(1, boot, 2)
	held := promises(r, boot)
	defer held.Release()
	r.resolve(5, func(d rpc.CapDescriptor) error { d.SetSenderPromise(6); return nil })
	r.resolve(6, func(d rpc.CapDescriptor) error { d.SetReceiverHosted(chain); return nil })
	vat.OK(t, held.Settle(t.Context()))
	_, own := vat.Local[*chainObj](held)
	if !own {
		t.Fatal("own = false, want true")
	}
	if got := r.conn.Stats().Embargoes; got != 0 {
		t.Fatalf("r.conn.Stats().Embargoes = %d, want 0", got)
	}
}

// A tail call: the outcome of the server's call is that of a call which the peer makes to the server, and is the peer's
// own. Until then, calls on it go through the peer, and afterwards directly. So an embargo is needed here too.
func TestTailCallThatEndsAtThePeer(t *testing.T) {
	r := newRaw(t, vat.Limits{})
	boot := r.boot()
	e := r.get(1, boot, 0)
	held := promises(r, boot)
	defer held.Release()
	a := vat.Send(t.Context(), held, tp.Echo_cap, nil)
	defer a.Release()
	q, _ := r.toImport()
	c := a.Cap(tp.Echo_cap_Results_cap)
	defer c.Release()
	around := vat.Send(t.Context(), c, tp.Chain_depth, nil)
	defer around.Release()
	call, err := r.expect(rpc.Message_Which_call).Call()
	vat.OK(t, err)
	piped := call.QuestionId()

	r.call(60, tp.Echo_TypeID, tp.Echo_cap.ID, toExport(e), capParam(func(d rpc.CapDescriptor) error { d.SetSenderHosted(7); return nil }),
		func(c rpc.Call) error { c.SendResultsTo().SetYourself(); return nil })
	r.send(func(m rpc.Message) error {
		ret, err := m.NewReturn()
		ret.SetAnswerId(q)
		ret.SetTakeFromOtherQuestion(60)
		return err
	})
	ret, err := r.expect(rpc.Message_Which_return).Return()
	vat.OK(t, err)
	if got := ret.Which(); got != rpc.Return_Which_resultsSentElsewhere {
		t.Fatalf("ret.Which() = %v, want %v", got, rpc.Return_Which_resultsSentElsewhere)
	}
	dis, err := r.expect(rpc.Message_Which_disembargo).Disembargo()
	vat.OK(t, err)
	target, err := dis.Target()
	vat.OK(t, err)
	pa, err := target.PromisedAnswer()
	vat.OK(t, err)
	if got := pa.QuestionId(); got != q {
		t.Fatalf("pa.QuestionId() = %d, want %d", got, q)
	}
	id := dis.Context().SenderLoopback()
	r.expect(rpc.Message_Which_finish) // of q

	direct := vat.Send(t.Context(), c, tp.Chain_depth, nil) // waits
	defer direct.Release()
	r.call(61, tp.Chain_TypeID, tp.Chain_depth.ID, toAnswer(60, 0)) // the first, on its way around
	question, to := r.toImport()
	if to != 7 {
		t.Fatalf("to = %d, want 7", to)
	}
	r.send(func(m rpc.Message) error {
		d, err := m.NewDisembargo()
		if err != nil {
			return err
		}
		d.Context().SetReceiverLoopback(id)
		to, err := d.NewTarget()
		if err != nil {
			return err
		}
		return promised(to.NewPromisedAnswer())(60, []uint16{0})
	})
	later, to := r.toImport()
	if to != 7 {
		t.Fatalf("to = %d, want 7", to)
	}
	for _, q := range []uint32{question, piped, later} {
		r.fail(q)
	}
	_, _, err = direct.Await(t.Context())
	if err == nil || err.Error() != "enough" {
		t.Fatalf("direct.Await: %v, want %q", err, "enough")
	}
	_, _, err = around.Await(t.Context())
	if err == nil || err.Error() != "enough" {
		t.Fatalf("around.Await: %v, want %q", err, "enough")
	}
}

// Paths of a pending call that were used and released count nothing and hold nothing.
func TestPathsComeAndGo(t *testing.T) {
	r := newRaw(t, vat.Limits{})
	e := r.get(1, r.boot(), 0)
	r.call(2, tp.Echo_TypeID, tp.Echo_sleep.ID, toExport(e), params(capnp.ObjectSize{DataSize: 8}, 0, func(s capnp.Struct, _ rpc.CapDescriptor_List) error {
		s.SetUint32(0, 60_000)
		return nil
	}))
	for i := range uint32(3000) { // more than there may be at once
		r.call(3, tp.Chain_TypeID, tp.Chain_depth.ID, toAnswer(2, uint16(i), 1, 2, 3))
		r.finish(3, true)
		ret, err := r.expect(rpc.Message_Which_return).Return()
		vat.OK(t, err)
		if got := ret.Which(); got != rpc.Return_Which_canceled {
			t.Fatalf("path %d: %v, want %v", i, got, rpc.Return_Which_canceled)
		}
	}
	if got := vat.Promises(r.conn, 2); got != 0 {
		t.Fatalf("vat.Promises(r.conn, 2) = %d, want 0", got)
	}
	for i := range uint32(1025) {
		r.call(2000+i, tp.Chain_TypeID, tp.Chain_depth.ID, toAnswer(2, uint16(i)))
	}
	if got, want := r.exception(2000+1024), "limit: 1024 pipelined paths of one call"; got != want {
		t.Errorf("r.exception(2000+1024) = %q, want %q", got, want)
	}
	if got := vat.Promises(r.conn, 2); got != 1024 {
		t.Fatalf("vat.Promises(r.conn, 2) = %d, want 1024", got)
	}
	r.finish(2, true)
}

// A Disembargo for an unresolved promise may be requested a limited number of times.
func TestDisembargoesOfAPromiseAreBounded(t *testing.T) {
	r := newRaw(t, vat.Limits{})
	boot := r.boot()
	e, chain := r.get(1, boot, 0), r.get(2, boot, 2)
	r.call(3, tp.Chain_TypeID, tp.Chain_slowNext.ID, toExport(chain), params(capnp.ObjectSize{DataSize: 8}, 0, func(s capnp.Struct, _ rpc.CapDescriptor_List) error {
		s.SetUint32(0, 60_000)
		return nil
	}))
	r.call(4, tp.Echo_TypeID, tp.Echo_cap.ID, toExport(e), capParam(func(d rpc.CapDescriptor) error { return promised(d.NewReceiverAnswer())(3, []uint16{0}) }))
	d := r.descriptor(4)
	if got := d.Which(); got != rpc.CapDescriptor_Which_senderPromise {
		t.Fatalf("d.Which() = %v, want %v", got, rpc.CapDescriptor_Which_senderPromise)
	}
	id := d.SenderPromise()
	for range 4097 {
		r.send(func(m rpc.Message) error {
			d, err := m.NewDisembargo()
			if err != nil {
				return err
			}
			d.Context().SetSenderLoopback(3)
			to, err := d.NewTarget()
			to.SetImportedCap(id)
			return err
		})
	}
	if got, want := r.aborted(), "limit: 4096 embargoes wait to be lifted"; got != want {
		t.Errorf("r.aborted() = %q, want %q", got, want)
	}
	select {
	case <-r.conn.Done():
	case <-time.After(patience):
		t.Error("the connection goes on")
	}
}
