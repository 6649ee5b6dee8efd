package vat

import "capnproto.org/go/capnp/v3/std/capnp/rpc"

// An embargo delays calls on a promise that did not resolve to a capability of the peer, until earlier calls
// that were sent to the peer have come back (rpc.capnp, Disembargo).
type embargo struct {
	promise *promise // a reference
	target  target   // a reference: where the promise leads afterwards
}

// maxEmbargoes is how many embargoes the peer may leave unanswered before the connection ends, and how many
// of the peer's own may wait here.
const maxEmbargoes = 4096

// mustEmbargo reports whether calls made directly on t could overtake earlier calls that were sent by way of
// c's peer, so that an embargo is needed. Calls on what the peer hosts, or has promised, still go by way of
// the peer: there an embargo is neither needed nor allowed (rpc.capnp, Disembargo). mustEmbargo returns such
// a promise of the peer, because it may still resolve to a capability here.
//
// One case has no embargo although calls may overtake: the peer resolves to a promise of ours, which itself
// has resolved to a capability of the peer. If the peer has learned of that, it would refuse the Disembargo
// and end the connection, which is worse.
//
// If elsewhere is true, the outcome is that of a call which the peer made here
// (Return.takeFromOtherQuestion). Then earlier calls come back in any case, also those on what the peer
// hosts.
func (c *Conn) mustEmbargo(t target, elsewhere bool) (must bool, promised *promise) {
	switch t := settle(t).(type) {
	case *importCap:
		return t.conn != c || elsewhere, nil
	case broken:
		return false, nil
	case *promise:
		if i, ok := t.leads().(*importCap); ok && i.conn == c && !elsewhere {
			return false, t
		}
	}
	return true, nil
}

// embargo asks the peer to say when it has passed on all calls that were sent on way, an import or a pipe. Until then
// the calls on p wait. It takes over the reference to t. If the connection has ended, it reports false and
// leaves the reference.
func (c *Conn) embargo(p *promise, t, way target) bool {
	p.retain()
	c.mu.Lock()
	if c.closed {
		c.mu.Unlock()
		p.release()
		return false
	}
	if len(c.embargoes) >= maxEmbargoes {
		c.mu.Unlock()
		p.release()
		c.shutdown(protocolf("limit: %d embargoes wait to be lifted", maxEmbargoes))
		return false
	}
	id := c.embargoIDs.take()
	c.embargoes[id] = &embargo{p, t}
	if i, ok := way.(*importCap); ok {
		i.moved = true
	}
	c.sendDisembargo(way, func(d rpc.Disembargo) { d.Context().SetSenderLoopback(id) })
	c.mu.Unlock()
	c.outbox.flush()
	return true
}

// sendDisembargo sends a Disembargo to the end of a way to the peer: an import or a pipe. Called with c.mu
// held.
func (c *Conn) sendDisembargo(way target, set func(rpc.Disembargo)) {
	c.send(build(func(root rpc.Message) error {
		d, err := root.NewDisembargo()
		if err != nil {
			return err
		}
		set(d)
		w, err := d.NewTarget()
		if err != nil {
			return err
		}
		switch way := way.(type) {
		case *importCap:
			w.SetImportedCap(way.id)
		case *pipe:
			pa, err := w.NewPromisedAnswer()
			if err != nil {
				return err
			}
			return writeTransform(pa, way.q.id, way.path)
		}
		return nil
	}))
}

// handleDisembargo handles both halves of a Disembargo.
func (c *Conn) handleDisembargo(d rpc.Disembargo) error {
	switch d.Context().Which() {
	case rpc.Disembargo_context_Which_senderLoopback:
		target, err := d.Target()
		if err != nil {
			return err
		}
		return c.echo(target, d.Context().SenderLoopback())
	case rpc.Disembargo_context_Which_receiverLoopback:
		id := d.Context().ReceiverLoopback()
		c.mu.Lock()
		e := c.embargoes[id]
		if e == nil {
			c.mu.Unlock()
			return protocolf("disembargo that was not asked for")
		}
		delete(c.embargoes, id)
		c.embargoIDs.put(id)
		c.mu.Unlock()
		via, err := d.Target()
		if err != nil {
			return err
		}
		c.lift(e, via)
		return nil
	}
	return protocolf("disembargo for a third party")
}

// lift ends an embargo (rpc.capnp, Disembargo.context.receiverLoopback) once the calls that came back have
// started. These may still wait on a promise that via leads to, if via is still valid, or in line for the
// object.
func (c *Conn) lift(e *embargo, via rpc.MessageTarget) {
	c.mu.Lock()
	var t target
	if !c.closed {
		t, _ = c.messageTarget(via) // the peer may send any target
	}
	c.mu.Unlock()
	if t == nil {
		t = e.target
		t.retain()
	}
	c.behind(t, func() {
		e.promise.redirect(e.target, true)
		e.promise.release()
	})
}

// behind calls f once the calls of c that have reached t so far have started. It takes over the reference to
// t.
func (c *Conn) behind(t target, f func()) {
	switch at := t.(type) {
	case *promise:
		at.after(func() {
			next := at.leads()
			if next != nil {
				next.retain()
			}
			c.behind(next, f)
			at.release()
		})
		return
	case *object:
		if !at.behind(c, f) {
			f()
		}
	default:
		f()
	}
	if t != nil {
		t.release()
	}
}

// echo answers a Disembargo once the calls that the peer sent before it have been passed on. The target must
// lead back to the peer (rpc.capnp, Disembargo.context.senderLoopback).
func (c *Conn) echo(mt rpc.MessageTarget, id uint32) error {
	c.mu.Lock()
	t, err := c.messageTarget(mt)
	returned := err != nil || c.wasReturned(mt)
	p, waits := t.(*promise)
	if waits {
		c.echoes++
	}
	full := c.echoes > maxEmbargoes
	c.mu.Unlock()
	if err != nil {
		return err
	}
	defer t.release()
	switch {
	case !returned:
		return protocolf("disembargo of a call that was not returned")
	case full:
		return protocolf("limit: %d embargoes wait to be lifted", maxEmbargoes)
	case waits:
		p.retain()
		p.after(func() {
			c.mu.Lock()
			c.echoes--
			c.mu.Unlock()
			if err := c.loopback(p, id); err != nil {
				c.shutdown(err)
			}
			p.release()
		})
		return nil
	}
	return c.loopback(t, id)
}

// wasReturned reports whether the call was answered whose result mt points into. It is true for an exported
// capability. Called with c.mu held.
func (c *Conn) wasReturned(mt rpc.MessageTarget) bool {
	if mt.Which() != rpc.MessageTarget_Which_promisedAnswer {
		return true
	}
	pa, err := mt.PromisedAnswer()
	if err != nil {
		return false
	}
	a := c.answers.get(pa.QuestionId())
	return a != nil && a.table.returned
}

// wayOf returns where calls on t go for now: an import, a pipe, or something else.
func wayOf(t target) target {
	for {
		p, ok := t.(*promise)
		if !ok {
			return t
		}
		t = p.leads()
	}
}

// goesTo reports whether way, as wayOf returns it, leads to c's peer. Called with c.mu held.
func (c *Conn) goesTo(way target) bool {
	switch way := way.(type) {
	case *importCap:
		return way.conn == c
	case *pipe:
		return way.q.conn == c && !way.q.returned
	}
	return false
}

func (c *Conn) loopback(t target, id uint32) error {
	if i, ok := settle(t).(*importCap); !ok || i.conn != c {
		if p, ok := t.(*promise); !ok || !p.leadsBack(c) {
			return protocolf("disembargo of something that does not lead back to its sender")
		}
	}
	way := wayOf(t)
	c.mu.Lock()
	if !c.closed {
		if !c.goesTo(way) {
			way = nil
		}
		c.sendDisembargo(way, func(d rpc.Disembargo) { d.Context().SetReceiverLoopback(id) })
	}
	c.mu.Unlock()
	c.outbox.flush()
	return nil
}
