package vat

import "capnproto.org/go/capnp/v3/std/capnp/rpc"

// A sending is a capability on its way to the peer.
type sending struct {
	target target // settled
	via    target // where calls on it go for now, when target is an unresolved promise
}

// settleAll prepares capabilities for a message, which needs locks that come before Conn.mu.
func settleAll(caps []*Cap) []sending {
	if len(caps) == 0 {
		return nil
	}
	list := make([]sending, len(caps))
	for i, c := range caps {
		if c != nil {
			list[i] = prepare(c.target) // the message holds the reference
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

// A subscription is a promise whose resolution the peer waits for, under the number that it has for it.
type subscription struct {
	promise *promise
	id      uint32
}

// describe writes a CapDescriptor for s. It reports the export that it counted, if it did, and a promise to
// subscribe to. Called with c.mu held.
func (c *Conn) describe(s sending, d rpc.CapDescriptor) (id uint32, counted bool, sub *promise, err error) {
	switch t := s.target.(type) {
	case nil:
		d.SetNone()
		return
	case *importCap:
		if t.conn == c {
			d.SetReceiverHosted(t.id)
			return
		}
	case *promise:
		switch via := s.via.(type) {
		case *importCap:
			if via.conn == c {
				d.SetReceiverHosted(via.id)
				return
			}
		case *pipe:
			if via.q.conn == c && !via.q.returned && !via.q.finished {
				var pa rpc.PromisedAnswer
				if pa, err = d.NewReceiverAnswer(); err == nil {
					err = writeTransform(pa, via.q.id, via.path)
				}
				return
			}
		}
		id, fresh, exc := c.exported(t)
		if exc != nil {
			return 0, false, nil, exc
		}
		d.SetSenderPromise(id)
		if fresh {
			sub = t
		}
		return id, true, sub, nil
	}
	id, _, exc := c.exported(s.target)
	if exc != nil {
		return 0, false, nil, exc
	}
	d.SetSenderHosted(id)
	return id, true, nil, nil
}

// describeAll writes m's capability table. On failure nothing is exported. Called with c.mu held.
func (c *Conn) describeAll(m *message, list []sending) (ids []uint32, subs []subscription, err error) {
	defer caught(&err)
	if len(list) == 0 {
		return nil, nil, nil
	}
	payload, err := m.payload()
	if err != nil {
		return nil, nil, err
	}
	table, err := payload.NewCapTable(int32(len(list)))
	if err != nil {
		return nil, nil, err
	}
	for i, s := range list {
		id, counted, sub, err := c.describe(s, table.At(i))
		if counted {
			ids = append(ids, id)
		}
		if sub != nil {
			subs = append(subs, subscription{sub, id})
		}
		if err != nil {
			releaseLater(c.unexportAll(ids))
			return nil, nil, err
		}
	}
	return ids, subs, nil
}

// releaseLater drops references that cannot be the last: the message that was to carry them has its own.
func releaseLater(list []target) { releaseAll(list) }

// subscribe has Resolve sent for exported promises, once they resolve. Called without locks.
func (c *Conn) subscribe(subs []subscription) {
	for _, s := range subs {
		s.promise.whenSettled(c, s.id)
	}
}

// accept turns a CapDescriptor of the peer's into a target, counting what it gives. A nil target is the null
// capability. Called with c.mu held; the reference is the caller's.
func (c *Conn) accept(d rpc.CapDescriptor) (t target, err error) {
	defer caught(&err)
	switch d.Which() {
	case rpc.CapDescriptor_Which_none:
		return nil, nil
	case rpc.CapDescriptor_Which_senderHosted:
		return c.imported(d.SenderHosted(), false)
	case rpc.CapDescriptor_Which_senderPromise:
		return c.imported(d.SenderPromise(), true)
	case rpc.CapDescriptor_Which_receiverHosted:
		e := c.exports.get(d.ReceiverHosted())
		if e == nil {
			return broken{exceptionf(Failed, "capability table names an export that does not exist")}, nil
		}
		e.target.retain()
		return e.target, nil
	case rpc.CapDescriptor_Which_receiverAnswer:
		pa, err := d.ReceiverAnswer()
		if err != nil {
			return nil, err
		}
		return c.promised(pa)
	case rpc.CapDescriptor_Which_thirdPartyHosted:
		// Level 1: the vine stands for the capability (rpc.capnp, ThirdPartyCapDescriptor.vineId).
		tp, err := d.ThirdPartyHosted()
		if err != nil {
			return nil, err
		}
		return c.imported(tp.VineId(), false)
	}
	return broken{exceptionf(Unimplemented, "unknown kind of capability")}, nil
}

// promised finds the target of a PromisedAnswer of the peer's. Called with c.mu held; the reference is the
// caller's.
func (c *Conn) promised(pa rpc.PromisedAnswer) (target, error) {
	path, err := readTransform(pa)
	if err != nil {
		return nil, err
	}
	a := c.answers.get(pa.QuestionId())
	if a == nil || a.table.finished {
		return nil, protocolf("reference to a question that is not open")
	}
	return a.at(path), nil
}

// acceptPayload reads the content and the capability table of a payload into m. Called with c.mu held. On
// failure, what was accepted so far is m's to release.
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
	if int64(table.Len()) > m.size/8 { // its entries have no size
		return protocolf("a capability table of %d entries in a message of %d bytes", table.Len(), m.size)
	}
	for i := range table.Len() {
		t, err := c.accept(table.At(i))
		if err != nil {
			return err
		}
		m.caps = append(m.caps, newCap(t))
	}
	return nil
}
