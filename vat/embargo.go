package vat

import "capnproto.org/go/capnp/v3/std/capnp/rpc"

// An embargo holds back calls on a promise that turned out not to live at the peer, until calls that were sent
// there before have come around (rpc.capnp, Disembargo).
type embargo struct {
	promise *promise // one reference
	target  target   // one reference: where it leads afterwards
}

// maxEmbargoes is how many the peer may leave unanswered before the connection ends, and how many of its own may wait
// to be answered here.
const maxEmbargoes = 4096

// mustEmbargo reports whether calls that went to c's peer may overtake or be overtaken by calls made directly on
// t. What the peer hosts, or has promised, calls reach as before: no embargo is needed there, and none allowed
// (rpc.capnp, Disembargo). What it has promised is returned: it may still turn out to live here.
//
// None either where the peer names what it holds of ours and that has become the peer's own: calls that came around by
// way of here may be overtaken then. A peer that has heard what it has become would refuse the Disembargo and end the
// connection, which is worse.
//
// Where the outcome was elsewhere, in a call that the peer made here (Return.takeFromOtherQuestion), calls came
// around in any case, also to what the peer hosts.
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

// embargo asks the peer to say when all calls that were sent to via, or to imp, have been passed on. Until then
// p's calls wait. It takes over the reference to t, and reports false, leaving it, when the connection is gone.
func (c *Conn) embargo(p *promise, t target, via *pipe, imp *importCap) bool {
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
		c.fail(protocolf("limit: %d embargoes wait to be lifted", maxEmbargoes))
		return false
	}
	id := c.embargoIDs.take()
	c.embargoes[id] = &embargo{p, t}
	c.send(build(func(root rpc.Message) error {
		d, err := root.NewDisembargo()
		if err != nil {
			return err
		}
		d.Context().SetSenderLoopback(id)
		target, err := d.NewTarget()
		if err != nil {
			return err
		}
		if imp != nil {
			imp.moved = true
			target.SetImportedCap(imp.id)
			return nil
		}
		pa, err := target.NewPromisedAnswer()
		if err != nil {
			return err
		}
		return writeTransform(pa, via.q.id, via.path)
	}))
	c.mu.Unlock()
	c.outbox.flush()
	return true
}

// handleDisembargo takes either half of a Disembargo.
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

// lift ends an embargo (rpc.capnp, Disembargo.context.receiverLoopback) once the calls that came around have started:
// those that wait until it is known where they lead, on the way that via names if it still names one, and those that
// wait for their turn on the object.
func (c *Conn) lift(e *embargo, via rpc.MessageTarget) {
	c.mu.Lock()
	var t target
	if !c.closed {
		t, _ = c.messageTarget(via) // a peer may name anything
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

// behind runs f when the calls of c's that have come to t so far have started. It takes over the reference to t.
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

// echo answers a Disembargo once the calls that the peer sent before it have been passed on. Its target must be
// something that leads back to the peer (rpc.capnp, Disembargo.context.senderLoopback).
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
				c.fail(err)
			}
			p.release()
		})
		return nil
	}
	return c.loopback(t, id)
}

// wasReturned reports whether the call that mt is a promise of was answered. c.mu is held.
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

// wayOf returns what calls on t go through for now: an import, a pipe, or anything else.
func wayOf(t target) target {
	for {
		p, ok := t.(*promise)
		if !ok {
			return t
		}
		t = p.leads()
	}
}

// writeWay writes a way to c's peer; another leaves w as it is. Called with c.mu held.
func (c *Conn) writeWay(way target, w rpc.MessageTarget) error {
	switch way := way.(type) {
	case *importCap:
		if way.conn == c {
			w.SetImportedCap(way.id)
		}
	case *pipe:
		if way.q.conn == c && !way.q.returned {
			pa, err := w.NewPromisedAnswer()
			if err != nil {
				return err
			}
			return writeTransform(pa, way.q.id, way.path)
		}
	}
	return nil
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
		c.send(build(func(root rpc.Message) error {
			d, err := root.NewDisembargo()
			if err != nil {
				return err
			}
			d.Context().SetReceiverLoopback(id)
			target, err := d.NewTarget()
			if err != nil {
				return err
			}
			return c.writeWay(way, target)
		}))
	}
	c.mu.Unlock()
	c.outbox.flush()
	return nil
}
