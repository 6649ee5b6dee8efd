package vat

import "capnproto.org/go/capnp/v3/std/capnp/rpc"

// Messages of the peer about questions that it answers and promises that it resolves: Return and Resolve.

// asked returns the question that a Return answers, and marks it as returned (rpc.capnp, Return.answerId). It
// is nil if the connection has ended. Called with c.mu held.
func (c *Conn) asked(id uint32) (*question, error) {
	if c.closed {
		return nil, nil
	}
	q := c.questions.get(id)
	if q == nil || q.returned {
		return nil, protocolf("return of a question that was not asked")
	}
	q.returned = true
	q.over()
	return q, nil
}

// handleResults is handleReturn for plain results without capabilities.
func (c *Conn) handleResults(m *message, id uint32) error {
	c.mu.Lock()
	q, err := c.asked(id)
	if q == nil {
		c.mu.Unlock()
		m.unref()
		return err
	}
	q.exports = nil
	c.forget(q)
	finished := q.finished
	if !finished {
		c.outbox.short(newFinish(id, false), false)
	}
	c.reader.answered = c.questions.len() == 0
	c.mu.Unlock()
	if finished {
		m.unref()
	} else {
		q.ans.plain = true
		q.ans.completeFrom(m, nil, q)
	}
	return nil
}

// handleCapResults is handleReturn for plain results with capabilities.
func (c *Conn) handleCapResults(m *message, b []byte, ret *plainCall) error {
	c.mu.Lock()
	q, err := c.asked(ret.question)
	if q == nil {
		c.mu.Unlock()
		m.unref()
		return err
	}
	q.exports = nil
	if q.finished { // the Finish has released the results
		c.forget(q)
		c.mu.Unlock()
		m.unref()
		return nil
	}
	err = c.acceptPlain(m, b, ret.table)
	c.mu.Unlock()
	if err != nil {
		m.unref()
		return err
	}
	c.succeed(q, m)
	return nil
}

// succeed completes q with its results m, and sends Finish.
func (c *Conn) succeed(q *question, m *message) {
	kept := int64(0) // by the peer, until Finish
	if len(m.caps) > 0 {
		kept = m.bytes() + keptCap
	}
	q.ans.completeFrom(m, nil, q)
	c.reader.answered = c.finish(q, kept)
}

// forget removes q from the table: both Finish and Return have gone (rpc.capnp, QuestionId). Called with c.mu
// held.
func (c *Conn) forget(q *question) {
	c.questions.remove(q.id)
	c.questionIDs.put(q.id)
}

// handleReturn handles a Return (rpc.capnp, Return).
func (c *Conn) handleReturn(m *message, ret rpc.Return) error {
	c.mu.Lock()
	q, err := c.asked(ret.AnswerId())
	if q == nil {
		c.mu.Unlock()
		m.unref()
		return err
	}
	var gone []target
	if ret.ReleaseParamCaps() { // like a Release of one reference each (rpc.capnp, Return.releaseParamCaps)
		gone = c.unexportAll(nil, q.exports)
	}
	q.exports = nil
	if q.finished {
		// The Finish has released the results.
		c.forget(q)
		c.mu.Unlock()
		releaseAll(gone)
		m.unref()
		return nil
	}
	var exc *Exception
	var other *answer
	switch ret.Which() {
	case rpc.Return_Which_results:
		var p rpc.Payload
		if p, err = ret.Results(); err == nil {
			err = c.acceptPayload(m, p)
		}
	case rpc.Return_Which_exception:
		var e rpc.Exception
		if e, err = ret.Exception(); err == nil {
			exc = readException(e)
		}
	case rpc.Return_Which_canceled:
		exc = ErrCanceled
	case rpc.Return_Which_takeFromOtherQuestion:
		// A tail call: the outcome is that of a call of the peer here, which it sent with
		// sendResultsTo.yourself (rpc.capnp, Call.sendResultsTo and Return.takeFromOtherQuestion).
		other = c.answers.get(ret.TakeFromOtherQuestion())
		if other == nil || !other.table.yourself || other.table.finished {
			err = protocolf("results of a question that keeps none")
		} else {
			other.use()
			q.elsewhere = true
		}
	case rpc.Return_Which_resultsSentElsewhere:
		err = protocolf("results sent elsewhere, which was not asked for")
	default:
		exc = exceptionf(Unimplemented, "the peer returned results from a third party")
	}
	c.mu.Unlock()
	releaseAll(gone)
	if err != nil {
		m.unref()
		return err
	}
	switch {
	case other != nil:
		m.unref()
		other.whenDone(func() {
			res, exc := other.outcome()
			q.ans.completeFrom(res, exc, q)
			other.drop()
			c.finish(q, mostOwed) // leaves at once
			c.outbox.flush()
		})
		return nil
	case exc != nil:
		m.unref()
		q.ans.completeFrom(nil, exc, q)
		c.reader.answered = c.finish(q, 0)
	default:
		c.succeed(q, m)
	}
	return nil
}

// finish sends Finish for a question that was returned, and of whose results the peer keeps that many bytes
// until then. The Finish does not release the capabilities in the results, which are released one by one. It
// reports whether no question is open.
func (c *Conn) finish(q *question, kept int64) (last bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	urgent := c.owe(kept)
	if !c.closed {
		c.forget(q)
		c.outbox.short(newFinish(q.id, false), urgent)
	}
	return c.questions.len() == 0
}

// handleResolve handles where a promise of the peer leads. The promise may have been released meanwhile. Then
// what it resolved to is released at once, and the peer made no mistake (rpc.capnp, Resolve).
func (c *Conn) handleResolve(r rpc.Resolve) error {
	c.mu.Lock()
	if c.closed {
		c.mu.Unlock()
		return nil
	}
	i := c.imports[r.PromiseId()]
	var t target
	var err error
	switch r.Which() {
	case rpc.Resolve_Which_cap:
		var d rpc.CapDescriptor
		if d, err = r.Cap(); err == nil {
			t, err = c.accept(d)
		}
	case rpc.Resolve_Which_exception:
		var e rpc.Exception
		if e, err = r.Exception(); err == nil {
			t = broken{readException(e)}
		}
	default:
		err = protocolf("unknown kind of resolution")
	}
	if err != nil {
		c.mu.Unlock()
		return err
	}
	if t == nil {
		t = broken{ErrNull}
	}
	var p *promise
	if i != nil {
		if p = i.promise; p == nil {
			c.mu.Unlock()
			t.release()
			return protocolf("resolve of what is no promise, or was resolved already")
		}
		i.promise = nil
		if !p.tryRetain() {
			p = nil
		}
	}
	if p != nil {
		i.refs.Add(1) // until a Disembargo has named it
	}
	c.mu.Unlock()
	if p == nil { // released meanwhile
		t.release()
		return nil
	}
	p.resolveImport(t, i)
	i.release()
	p.release()
	return nil
}
