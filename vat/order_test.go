package vat_test

import (
	"reflect"
	"slices"
	"testing"
	"time"

	"capnproto.org/go/capnp/v3/std/capnp/rpc"

	"capd/vat"
	tp "capd/vat/internal/testproto"
)

func next(t testing.TB, c *vat.Cap, tag uint32) *vat.Answer[tp.Counter_next_Results] {
	return vat.Send(t.Context(), c, tp.Counter_next, func(q tp.Counter_next_Params, _ *vat.Caps) error { q.SetTag(tag); return nil })
}

func slow(t testing.TB, c *vat.Cap, tag, ms uint32) *vat.Answer[tp.Counter_slow_Results] {
	return vat.Send(t.Context(), c, tp.Counter_slow, func(q tp.Counter_slow_Params, _ *vat.Caps) error {
		q.SetTag(tag)
		q.SetMs(ms)
		return nil
	})
}

func TestCallsOnOneObjectStartInOrder(t *testing.T) {
	p := connect(t, vat.Limits{Workers: 4})
	a := vat.Send(t.Context(), p.boot, tp.Server_counter, nil)
	c := a.Cap(tp.Server_counter_Results_counter)
	a.Release()
	defer c.Release()
	type release interface{ Release() }
	var all []release
	for i := range uint32(300) {
		if i%3 == 0 {
			s := slow(t, c, i, 1)
			all = append(all, s)
			defer func() {
				r, _, err := s.Await(t.Context())
				if err != nil {
					t.Errorf("s.Await: %v", err)
				} else if got := r.N(); got != i {
					t.Errorf("r.N() = %d, want %d", got, i)
				}
				s.Release()
			}()
		} else {
			s := next(t, c, i)
			defer func() {
				r, _, err := s.Await(t.Context())
				if err != nil {
					t.Errorf("s.Await: %v", err)
				} else if got := r.N(); got != i {
					t.Errorf("r.N() = %d, want %d", got, i)
				}
				s.Release()
			}()
		}
	}
}

// A capability of the client goes to the server and comes back as a promise. Calls made while it was a promise go
// through the server. Calls made afterwards must not overtake them.
func TestEmbargo(t *testing.T) {
	p := connect(t, vat.Limits{})
	own := newWorld() // hosted by the client
	e := p.echoCap(t)
	defer e.Release()
	for range 200 {
		obj := &counterObj{tracked: tracked{own}}
		counter := own.serve(obj)
		a := vat.Send(t.Context(), e, tp.Echo_cap, func(q tp.Echo_cap_Params, caps *vat.Caps) error {
			return q.SetCap(caps.Put(counter.AddRef()))
		})
		back := a.Cap(tp.Echo_cap_Results_cap)
		var answers []*vat.Answer[tp.Counter_next_Results]
		tag := uint32(0)
		for range 5 { // by the long way
			answers = append(answers, next(t, back, tag))
			tag++
		}
		_, _, err := a.Await(t.Context())
		vat.OK(t, err)
		for range 5 { // by the short way, once it is known
			answers = append(answers, next(t, back, tag))
			tag++
		}
		for _, a := range answers {
			_, _, err := a.Await(t.Context())
			vat.OK(t, err)
			a.Release()
		}
		obj.mu.Lock()
		if !slices.IsSorted(obj.tags) {
			t.Fatalf("the calls started in the order %v, want it sorted", obj.tags)
		}
		if len(obj.tags) != 10 {
			t.Fatalf("obj.tags = %v, want 10 of them", obj.tags)
		}
		obj.mu.Unlock()
		_, ok := vat.Local[*counterObj](back)
		if !ok {
			t.Fatal("in the end the capability is not known to be our own")
		}
		a.Release()
		back.Release()
		counter.Release()
	}
	soon(t, func() bool { return own.live.Load() == 0 }, "counters leaked")
	soon(t, func() bool { return p.client.Stats().Embargoes == 0 && p.client.Stats().Exports == 0 }, "tables leaked")
}

// The same from the other side: the peer asks for its own capability back, pipelines on it, and asks for a
// Disembargo. This must be echoed after the calls.
func TestDisembargoIsEchoedAfterTheCalls(t *testing.T) {
	r := newRaw(t, vat.Limits{})
	e := r.get(1, r.boot(), 0)
	// cap(5) returns our capability; two calls are pipelined on it.
	r.call(2, tp.Echo_TypeID, 5, toExport(e), capParam(func(d rpc.CapDescriptor) error { d.SetSenderHosted(5); return nil }))
	r.call(3, tp.Counter_TypeID, 0, toAnswer(2, 0))
	r.call(4, tp.Counter_TypeID, 0, toAnswer(2, 0))
	r.send(func(m rpc.Message) error {
		d, err := m.NewDisembargo()
		if err != nil {
			return err
		}
		d.Context().SetSenderLoopback(9)
		tgt, err := d.NewTarget()
		if err != nil {
			return err
		}
		return promised(tgt.NewPromisedAnswer())(2, []uint16{0})
	})
	var got []rpc.Message_Which
	for len(got) == 0 || got[len(got)-1] != rpc.Message_Which_disembargo {
		m, ok := r.recv()
		if !ok {
			t.Fatal("the connection has ended")
		}
		got = append(got, m.Which())
		if m.Which() == rpc.Message_Which_disembargo {
			d, _ := m.Disembargo()
			if got := d.Context().ReceiverLoopback(); got != 9 {
				t.Errorf("d.Context().ReceiverLoopback() = %d, want 9", got)
			}
		}
	}
	if want := []rpc.Message_Which{rpc.Message_Which_return, rpc.Message_Which_call, rpc.Message_Which_call, rpc.Message_Which_disembargo}; !reflect.DeepEqual(got, want) {
		t.Errorf("messages = %v, want %v", got, want)
	}
}

// The server exports a promise of its own, and resolves it.
func TestExportedPromiseIsResolved(t *testing.T) {
	p := connect(t, vat.Limits{})
	own := newWorld()
	local := own.chain(0)
	a := vat.Send(t.Context(), local, tp.Chain_slowNext, func(q tp.Chain_slowNext_Params, _ *vat.Caps) error { q.SetMs(30); return nil })
	promise := a.Cap(tp.Chain_slowNext_Results_chain)
	a.Release()
	// For the server, too, what it keeps is a promise.
	vat.OK(t, vat.Do(t.Context(), p.boot, tp.Server_hold, func(q tp.Server_hold_Params, caps *vat.Caps) error {
		return q.SetCap(caps.Put(promise.AddRef()))
	}, nil))
	p.held.Lock()
	held := p.held.cap.AddRef()
	p.held.Unlock()
	n, err := depthOf(t.Context(), held) // from the server to the client
	vat.OK(t, err)
	if n != 1 {
		t.Errorf("depth = %d, want 1", n)
	}
	time.Sleep(20 * time.Millisecond)
	n, err = depthOf(t.Context(), held)
	vat.OK(t, err)
	if n != 1 {
		t.Errorf("depth = %d, want 1", n)
	}
	held.Release()
	p.drop()
	promise.Release()
	local.Release()
	soon(t, func() bool { return own.live.Load() == 0 }, "chains leaked")
}

func TestPromiseResolvesToTheReceiversOwn(t *testing.T) {
	// The peer promises a capability, the server calls it, and it resolves to the server's own bootstrap. The
	// server must embargo it, and send a Disembargo before its later calls.
	r := newRaw(t, vat.Limits{})
	boot := r.boot()
	chain := r.get(1, boot, 2)
	r.hold(2, boot, func(d rpc.CapDescriptor) error { d.SetSenderPromise(5); return nil })
	r.world.held.Lock()
	held := r.world.held.cap.AddRef()
	r.world.held.Unlock()
	first := vat.Send(t.Context(), held, tp.Chain_depth, nil)
	call, err := r.expect(rpc.Message_Which_call).Call()
	vat.OK(t, err)
	r.resolve(5, func(d rpc.CapDescriptor) error { d.SetReceiverHosted(chain); return nil })
	dis, err := r.expect(rpc.Message_Which_disembargo).Disembargo()
	vat.OK(t, err)
	id := dis.Context().SenderLoopback()
	second := vat.Send(t.Context(), held, tp.Chain_depth, nil)
	// It is passed back, and the embargo is lifted.
	r.call(50, tp.Chain_TypeID, 1, toExport(chain))
	r.send(func(m rpc.Message) error {
		d, err := m.NewDisembargo()
		if err != nil {
			return err
		}
		d.Context().SetReceiverLoopback(id)
		_, err = d.NewTarget()
		return err
	})
	_, _, err = second.Await(t.Context())
	vat.OK(t, err)
	// A tail call answers the first call.
	_ = call
	r.send(func(m rpc.Message) error {
		ret, err := m.NewReturn()
		if err != nil {
			return err
		}
		ret.SetAnswerId(call.QuestionId())
		e, err := ret.NewException()
		if err != nil {
			return err
		}
		return e.SetReason("enough")
	})
	_, _, err = first.Await(t.Context())
	if err == nil || err.Error() != "enough" {
		t.Errorf("first.Await: %v, want %q", err, "enough")
	}
	first.Release()
	second.Release()
	held.Release()
}

func TestTailCall(t *testing.T) {
	r := newRaw(t, vat.Limits{})
	boot := r.boot()
	chain := r.get(1, boot, 2)
	r.hold(2, boot, func(d rpc.CapDescriptor) error { d.SetSenderHosted(5); return nil })
	r.world.held.Lock()
	held := r.world.held.cap.AddRef()
	r.world.held.Unlock()
	ans := vat.Send(t.Context(), held, tp.Chain_nested, nil)
	d := ans.Cap(tp.Chain_nested_Results_node, tp.Chain_Node_chain)
	call, err := r.expect(rpc.Message_Which_call).Call()
	vat.OK(t, err)
	// The peer answers with the result of the server's own chain.
	r.call(60, tp.Chain_TypeID, 3, toExport(chain), func(c rpc.Call) error { c.SendResultsTo().SetYourself(); return nil })
	r.send(func(m rpc.Message) error {
		ret, err := m.NewReturn()
		ret.SetAnswerId(call.QuestionId())
		ret.SetTakeFromOtherQuestion(60)
		return err
	})
	_, _, err = ans.Await(t.Context())
	vat.OK(t, err)
	n, err := depthOf(t.Context(), d)
	vat.OK(t, err)
	if n != 1 {
		t.Errorf("depth = %d, want 1", n)
	}
	for {
		m, ok := r.recv()
		if !ok {
			t.Fatal("the connection has ended")
		}
		if m.Which() == rpc.Message_Which_return {
			ret, _ := m.Return()
			if got := ret.Which(); got != rpc.Return_Which_resultsSentElsewhere {
				t.Errorf("ret.Which() = %v, want %v", got, rpc.Return_Which_resultsSentElsewhere)
			}
			break
		}
	}
	r.finish(60, false)
	ans.Release()
	d.Release()
	held.Release()
}

// A capability from one connection, given to another, is proxied.
func TestThirdParty(t *testing.T) {
	far := connect(t, vat.Limits{})
	near := connect(t, vat.Limits{})
	c := far.root(t) // hosted by far's server; near's server gets it from the client in the middle
	var hop *vat.Cap
	vat.OK(t, vat.Do(t.Context(), near.boot, tp.Server_hold, func(q tp.Server_hold_Params, caps *vat.Caps) error {
		return q.SetCap(caps.Put(c.AddRef()))
	}, nil))
	near.held.Lock()
	hop = near.held.cap.AddRef()
	near.held.Unlock()
	n, err := depthOf(t.Context(), hop)
	vat.OK(t, err)
	if n != 0 {
		t.Errorf("depth = %d, want 0", n)
	}
	// Results with capabilities, and pipelining, through the proxy.
	a := vat.Send(t.Context(), hop, tp.Chain_nested, nil)
	d := a.Cap(tp.Chain_nested_Results_node, tp.Chain_Node_chain)
	n, err = depthOf(t.Context(), d)
	vat.OK(t, err)
	if n != 1 {
		t.Errorf("depth = %d, want 1", n)
	}
	r, caps, err := a.Await(t.Context())
	vat.OK(t, err)
	node, err := r.Node()
	vat.OK(t, err)
	n, err = depthOf(t.Context(), caps.Get(node.Chain()))
	vat.OK(t, err)
	if n != 1 {
		t.Errorf("depth = %d, want 1", n)
	}
	a.Release()
	d.Release()
	// Its cancellation goes through as well.
	s := vat.Send(t.Context(), hop, tp.Chain_slowNext, func(q tp.Chain_slowNext_Params, _ *vat.Caps) error { q.SetMs(60_000); return nil })
	soon(t, func() bool { return far.slow.Load() == 1 }, "not begun")
	s.Release()
	select {
	case <-far.cancelled:
	case <-time.After(patience):
		t.Error("not cancelled")
	}
	hop.Release()
	near.drop()
	c.Release()
	soon(t, func() bool { return far.live.Load() == 0 }, "proxied capabilities leaked")
}
