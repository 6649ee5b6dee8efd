package vat

import (
	"slices"

	"capnproto.org/go/capnp/v3"
	"capnproto.org/go/capnp/v3/std/capnp/rpc"
)

// A sending is a capability that is about to be sent to the peer.
type sending struct {
	target target // settled
	via    target // if target is an unresolved promise: where calls on it go for now
}

// settleAll prepares capabilities for a message and appends them to list. It takes locks that come before
// Conn.mu.
func settleAll(list []sending, caps []*Cap) []sending {
	for _, c := range caps {
		if c != nil {
			list = append(list, prepare(c.target)) // the message holds the reference
		} else {
			list = append(list, sending{})
		}
	}
	return list
}

func prepare(t target) sending {
	s := sending{target: settle(t)}
	if p, ok := s.target.(*promise); ok {
		p.mu.Lock()
		if !p.final && !p.draining && len(p.queue) == 0 {
			s.via = p.dst
		}
		p.mu.Unlock()
	}
	return s
}

// theirs returns the import of s if s is an unresolved promise of c's own peer, and nil otherwise. Called
// with c.mu held.
func (c *Conn) theirs(s sending) *importCap {
	p, ok := s.target.(*promise)
	way, imported := s.via.(*importCap)
	if ok && imported && way.conn == c && way.promise == p {
		return way
	}
	return nil
}

// A subscription is a promise that the peer holds under that number and whose Resolve it waits for.
type subscription struct {
	promise *promise
	id      uint32
}

// A descriptor is the content of a CapDescriptor.
type descriptor struct {
	which rpc.CapDescriptor_Which
	id    uint32 // of the kinds that have a number
	way   *pipe  // of the kind receiverAnswer
}

// numberedCap reports whether a capability of that kind is null, or only a number.
func numberedCap(which rpc.CapDescriptor_Which) bool {
	switch which {
	case rpc.CapDescriptor_Which_none, rpc.CapDescriptor_Which_senderHosted, rpc.CapDescriptor_Which_senderPromise,
		rpc.CapDescriptor_Which_receiverHosted:
		return true
	}
	return false
}

// describe returns the descriptor for s, whether it counted an export for it, and a promise to subscribe to,
// if any. Called with c.mu held.
func (c *Conn) describe(s sending) (d descriptor, counted bool, sub *promise, err error) {
	switch t := s.target.(type) {
	case nil:
		return descriptor{which: rpc.CapDescriptor_Which_none}, false, nil, nil
	case *importCap:
		if t.conn == c {
			return descriptor{which: rpc.CapDescriptor_Which_receiverHosted, id: t.id}, false, nil, nil
		}
	case *promise:
		if way := c.theirs(s); way != nil {
			return descriptor{which: rpc.CapDescriptor_Which_receiverHosted, id: way.id}, false, nil, nil
		}
		if via, ok := s.via.(*pipe); ok && via.q.conn == c && !via.q.returned && !via.q.finished {
			return descriptor{which: rpc.CapDescriptor_Which_receiverAnswer, way: via}, false, nil, nil
		}
		id, fresh, exc := c.exported(t)
		if exc != nil {
			return d, false, nil, exc
		}
		if fresh {
			sub = t
		}
		return descriptor{which: rpc.CapDescriptor_Which_senderPromise, id: id}, true, sub, nil
	}
	id, _, exc := c.exported(s.target)
	if exc != nil {
		return d, false, nil, exc
	}
	return descriptor{which: rpc.CapDescriptor_Which_senderHosted, id: id}, true, nil, nil
}

// setDescriptor writes d as a CapDescriptor into word i and the pointer after it.
func (m *message) setDescriptor(i int, d descriptor) error {
	m.setWord(i, uint64(d.which)|uint64(d.id)<<32)
	if d.way != nil {
		return m.setPromisedAnswer(i+1, d.way.q.id, d.way.path)
	}
	return nil
}

// write writes d with the generated code.
func (d descriptor) write(to rpc.CapDescriptor) error {
	if d.way != nil {
		pa, err := to.NewReceiverAnswer()
		if err != nil {
			return err
		}
		return writeTransform(pa, d.way.q.id, d.way.path)
	}
	capnp.Struct(to).SetUint16(0, uint16(d.which))
	capnp.Struct(to).SetUint32(4, d.id)
	return nil
}

// describeAll writes m's capability table, and appends the numbers of the exports in it to ids. If it fails,
// nothing is exported. Called with c.mu held.
func (c *Conn) describeAll(m *message, list []sending, ids []uint32) (_ []uint32, subs []subscription, err error) {
	defer caught(&err)
	if len(list) == 0 {
		return nil, nil, nil
	}
	at, err := m.list(m.contentAt()+1, len(list), 1, 1)
	if err != nil {
		return nil, nil, err
	}
	for i, s := range list {
		d, counted, sub, err := c.describe(s)
		if counted {
			ids = append(ids, d.id)
		}
		if sub != nil {
			subs = append(subs, subscription{sub, d.id})
		}
		if err == nil {
			err = m.setDescriptor(at+2*i, d)
		}
		if err != nil {
			releaseAll(c.unexportAll(nil, ids)) // not the last references: m has its own
			return nil, nil, err
		}
	}
	return ids, subs, nil
}

// subscribe sends Resolve for exported promises once they resolve. Called without locks.
func (c *Conn) subscribe(subs []subscription) {
	for _, s := range subs {
		s.promise.whenSettled(c, s.id)
	}
}

// accept returns the target of a descriptor of the peer (rpc.capnp, CapDescriptor), and counts the reference
// that it gives. A nil target is the null capability. The reference is the caller's. Called with c.mu held.
func (c *Conn) accept(d rpc.CapDescriptor) (t target, err error) {
	defer caught(&err)
	switch which := d.Which(); which {
	case rpc.CapDescriptor_Which_receiverAnswer:
		pa, err := d.ReceiverAnswer()
		if err != nil {
			return nil, err
		}
		return c.promised(pa)
	case rpc.CapDescriptor_Which_thirdPartyHosted:
		// Level 1: the vine takes the place of the capability (rpc.capnp, ThirdPartyCapDescriptor.vineId).
		tp, err := d.ThirdPartyHosted()
		if err != nil {
			return nil, err
		}
		return c.imported(tp.VineId(), false)
	default:
		return c.acceptNumbered(which, capnp.Struct(d).Uint32(4))
	}
}

// acceptNumbered is accept for the kinds that are null or only a number.
func (c *Conn) acceptNumbered(which rpc.CapDescriptor_Which, id uint32) (target, error) {
	switch which {
	case rpc.CapDescriptor_Which_none:
		return nil, nil
	case rpc.CapDescriptor_Which_senderHosted:
		return c.imported(id, false)
	case rpc.CapDescriptor_Which_senderPromise:
		return c.imported(id, true)
	case rpc.CapDescriptor_Which_receiverHosted:
		e := c.exports.get(id)
		if e == nil {
			return broken{exceptionf(Failed, "capability table names an export that does not exist")}, nil
		}
		e.target.retain()
		return e.target, nil
	}
	return broken{exceptionf(Unimplemented, "unknown kind of capability")}, nil
}

// promised returns the target of a PromisedAnswer of the peer (rpc.capnp, PromisedAnswer). The reference is
// the caller's. Called with c.mu held.
func (c *Conn) promised(pa rpc.PromisedAnswer) (target, error) {
	path, err := readTransform(pa)
	if err != nil {
		return nil, err
	}
	return c.answered(pa.QuestionId(), path)
}

// answered returns the capability at path in the outcome of the peer's question id. The reference is the
// caller's. Called with c.mu held.
func (c *Conn) answered(id uint32, path []uint16) (target, error) {
	a := c.answers.get(id)
	if a == nil || a.table.finished {
		return nil, protocolf("reference to a question that is not open")
	}
	return a.at(path), nil
}

// acceptPayload reads the content and the capability table of a payload into m. If it fails, m still has to
// release what it accepted so far. Called with c.mu held.
func (c *Conn) acceptPayload(m *message, p rpc.Payload) (err error) {
	defer caught(&err)
	if m.content, err = p.Content(); err != nil {
		return err
	}
	if !p.HasCapTable() {
		return nil
	}
	table, err := p.CapTable()
	if err != nil {
		return err
	}
	if err := m.expectCaps(table.Len()); err != nil {
		return err
	}
	for i := range table.Len() {
		t, err := c.accept(table.At(i))
		if err != nil {
			return err
		}
		m.takeCap(t)
	}
	m.purse.add(c.meter.Load(), m.bytes())
	return nil
}

// Memory that a capability in a received message takes beside its descriptor, and that a promise takes.
const (
	capBytes     = 64
	promiseBytes = 256
)

// expectCaps makes room for n capabilities.
func (m *message) expectCaps(n int) error {
	if n > maxCaps {
		return protocolf("limit: %d capabilities in one message", n)
	}
	if int64(n) > m.size/8 { // the entries take no room in the message
		return protocolf("a capability table of %d entries in a message of %d bytes", n, m.size)
	}
	m.caps = slices.Grow(m.caps, n)
	return nil
}

// takeCap appends t to m's capabilities. It takes over the reference.
func (m *message) takeCap(t target) {
	m.caps = append(m.caps, newCap(t))
	m.capBytes += capBytes
	if _, ok := t.(*promise); ok {
		m.capBytes += promiseBytes
	}
}
