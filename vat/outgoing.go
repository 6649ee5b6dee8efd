package vat

import (
	"context"

	"capnproto.org/go/capnp/v3/std/capnp/rpc"
)

// ask sends r to the peer as a question. The target is to, a capability that the peer hosts, or via, a part
// of an outcome that the peer has not returned. ask takes over r. It reports false and leaves r alone if that
// outcome has been returned meanwhile, or if promised is true and the promise to has resolved.
func (c *Conn) ask(r *request, to *importCap, via *pipe, promised bool) bool {
	r.direct = false
	m := r.params
	if m.kind == cameIn { // the parameters came in on another connection
		var err error
		if m, err = copyCall(m); err != nil {
			r.fail(errInternal)
			return true
		}
	}
	var few [4]sending
	list := settleAll(few[:0], m.caps)
	lent := m.tail.loan
	var err error

	c.mu.Lock()
	if (via != nil && (via.q.returned || via.q.finished) || promised && to.moved) && !c.closed {
		c.mu.Unlock()
		if m != r.params {
			m.unref()
		}
		return false
	}
	var exc *Exception
	switch {
	case c.closed:
		c.mu.Unlock()
		exc = c.gone()
		c.mu.Lock()
	case c.questions.len() >= c.limits.Questions:
		exc = limitf("%d calls to the peer are open", c.questions.len())
	case to != nil:
		m.setWord(callTarget, uint64(to.id)) // and the kind of target importedCap, which is 0
	default:
		if err = m.setPromisedTarget(via.q.id, via.path); err != nil {
			exc = errInternal
		}
	}
	var subs []subscription
	var ids []uint32 // exports in the parameters
	q := &r.ans.q
	if exc == nil {
		ids, subs, err = c.describeAll(m, list, nil)
		if err != nil {
			exc = asException(err)
		} else {
			*q = question{conn: c, id: c.questionIDs.take(), ans: r.ans, exports: ids, called: methodKey{r.iface, r.method}}
			c.questions.put(q.id, q)
			// The peer has to answer the calls before a pipelined one first, and another call is likely to
			// follow.
			if q.patient = !r.awaited && r.conn == nil && (via != nil || q.called == c.pipelined); via != nil {
				q.aim(via.q)
			}
			m.setWord(envelopeHead, uint64(q.id)|uint64(r.method)<<32)
			m.setWord(callInterface, r.iface)
			c.outbox.append(m, true)
		}
	}
	patient := q.patient
	c.mu.Unlock()
	if m != r.params {
		m.unref()
	}
	if exc != nil {
		r.fail(exc)
		return true
	}
	if len(ids) > 0 {
		c.reader.attend() // the peer may call it
	}
	c.subscribe(subs)
	r.finish()
	if r.ans.sent(q) { // somebody waits for it already
		patient = false
	}
	if r.isCanceled() {
		c.abandon(q)
	}
	switch {
	case lent != nil:
		c.calledBack()
		c.outbox.flushLoan(lent)
	case patient:
		c.calledBack()
		c.outbox.flushSoon()
	default:
		c.yieldToWoken()
		c.outbox.flush()
	}
	return true
}

// copyCall copies the parameters of a call that came in into one that goes out.
func copyCall(in *message) (*message, error) {
	m, err := newEnvelope(aCall, callEnvelope[:], 0)
	if err != nil {
		return nil, err
	}
	if err := copyContent(m, in); err != nil {
		m.unref()
		return nil, err
	}
	return m, nil
}

// abandon sends Finish for a question that was not returned yet and that nobody waits for. The number stays
// in use until the Return (rpc.capnp, Finish and QuestionId). If results come all the same, the peer releases
// the capabilities in them.
func (c *Conn) abandon(q *question) {
	c.mu.Lock()
	if c.closed || q.returned || q.finished {
		c.mu.Unlock()
		return
	}
	q.finished = true
	q.over()
	c.outbox.short(newFinish(q.id, true), true)
	piped := q.piped > 0
	c.mu.Unlock()
	if piped { // no hurry: calls on its outcome keep it running
		c.outbox.flushSoon()
	} else {
		c.outbox.flush()
	}
	q.ans.complete(nil, ErrCanceled)
}

// Bootstrap asks the peer for its bootstrap capability (rpc.capnp, Bootstrap). The result can be used at
// once. If the peer has none, the first call fails. Bootstrap does not wait, and only checks whether ctx has
// ended.
func (c *Conn) Bootstrap(ctx context.Context) *Cap {
	if err := ctx.Err(); err != nil {
		return newCap(broken{exceptionf(Failed, "bootstrap was not asked for: %v", err)})
	}
	a := &answer{users: 1}
	c.mu.Lock()
	if c.closed {
		c.mu.Unlock()
		return newCap(broken{c.gone()})
	}
	if c.questions.len() >= c.limits.Questions {
		c.mu.Unlock()
		return newCap(broken{limitf("%d calls to the peer are open", c.limits.Questions)})
	}
	q := &a.q
	*q = question{conn: c, id: c.questionIDs.take(), ans: a}
	c.questions.put(q.id, q)
	c.send(bootstrapMessage(q.id))
	c.mu.Unlock()
	a.sent(q)
	p := a.at(nil)
	a.drop()
	c.outbox.flush()
	return newCap(p)
}

// sendReturn answers a call of the peer once its outcome is known (rpc.capnp, Return).
func (c *Conn) sendReturn(a *answer) {
	res, exc := a.outcome()
	out, err := returnable(res)
	if err != nil {
		exc = errInternal
	}
	exc = c.worded(exc)
	var few [4]sending
	var list []sending
	if out != nil {
		list = settleAll(few[:0], out.caps)
	}
	onReader := a.request != nil && a.request.direct

	c.mu.Lock()
	if c.closed {
		c.mu.Unlock()
		out.unref()
		res.unref()
		return
	}
	e := &a.table
	var subs []subscription
	kept := false
	var over error
	var old []*Cap
	switch {
	case e.finished:
		c.send(returnMessage(a.id, func(r rpc.Return) error { r.SetCanceled(); return nil }))
		c.answers.remove(a.id)
	case exc == nil && e.yourself:
		c.send(returnMessage(a.id, func(r rpc.Return) error { r.SetResultsSentElsewhere(); return nil }))
		kept = true
		e.bytes = res.held()
	case exc == nil:
		if e.exports, subs, err = c.describeAll(out, list, e.few[:0]); err == nil {
			out.orWord(envelopeHead, uint64(a.id))
			c.outbox.append(out, !a.isPatient())
			if kept = len(list) > 0; kept {
				e.bytes = out.held()
				old = c.keepTo(out, list)
			}
		} else {
			exc = c.worded(asException(err))
			a.replace(exc)
		}
	}
	if exc != nil && !e.finished {
		c.send(exceptionReturn(a.id, exc))
		e.bytes = int64(len(exc.Reason))
	}
	e.returned = true
	c.resultBytes += e.bytes
	c.hold()
	if e.bytes > 0 {
		over = c.overResults()
	}
	var none *message
	if !kept { // while c.mu is held, nobody else can look into the results
		none = a.take()
	}
	c.mu.Unlock()

	none.unref()
	for _, c := range old {
		c.Release()
	}
	out.unref()
	res.unref()
	c.subscribe(subs)
	if over != nil {
		c.shutdown(over)
	}
	if !onReader {
		c.outbox.flush()
	}
}

// isPatient reports whether the Return of a, which did not fail, may wait until the reader finds nothing to
// read. It may if the call is of a stream, since its caller then goes on sending.
func (a *answer) isPatient() bool {
	r := a.request
	return r != nil && r.direct && r.handler != nil && r.handler.stream && r.conn != nil && r.conn.reader.in.sock != nil
}

// keepTo replaces capabilities of m that are promises of the peer's own by what m's table says of them. They
// remain the peer's promises, also when those resolve. It returns the replaced references, for the caller to
// release. Called with c.mu held.
func (c *Conn) keepTo(m *message, list []sending) (old []*Cap) {
	for i, s := range list {
		if way := c.theirs(s); way != nil {
			way.retain()
			old = append(old, m.caps[i])
			m.caps[i] = newCap(way)
		}
	}
	return old
}

// overResults returns an error if what the peer has not finished exceeds a limit. Called with c.mu held.
func (c *Conn) overResults() error {
	if c.resultBytes > c.limits.ResultBytes {
		return protocolf("limit: results of %d bytes wait to be finished", c.limits.ResultBytes)
	}
	if _, end := c.crowded(); end {
		return errCrowded
	}
	return nil
}

// returnable returns res as a message that can be sent as a Return. It copies res if it is something else or
// was sent already.
func returnable(res *message) (*message, error) {
	if res == nil {
		return nil, nil
	}
	if res.kind == aReturn && res.sent.CompareAndSwap(false, true) {
		return res.ref(), nil
	}
	out, err := newReturn(0)
	if err != nil {
		return nil, err
	}
	if err = copyContent(out, res); err != nil {
		out.unref()
		return nil, err
	}
	return out, nil
}

// sendResolve tells the peer where a promise that it holds leads (rpc.capnp, Resolve). From then on, calls
// that the peer sends to the promise go exactly there. If that is a promise of the peer's own, they go back
// to the peer even after that promise has resolved (rpc.capnp, Disembargo, "The Tribble 4-way Race
// Condition").
func (c *Conn) sendResolve(p *promise, id uint32) {
	s := prepare(p)
	c.mu.Lock()
	e := c.exports.get(id)
	if c.closed || e == nil || e.target != target(p) || e.resolved {
		c.mu.Unlock()
		return
	}
	e.resolved = true
	delete(c.exportIDs, e.target) // its next export has another number (rpc.capnp, Resolve)
	var sub *promise
	var counted uint32
	var old target
	m := build(func(root rpc.Message) error {
		res, err := root.NewResolve()
		if err != nil {
			return err
		}
		res.SetPromiseId(id)
		var exc *Exception
		if b, ok := s.target.(broken); ok {
			exc = b.err
		} else {
			to, err := res.NewCap()
			if err != nil {
				return err
			}
			d, _, p, err := c.describe(s)
			if err == nil {
				sub, counted = p, d.id
				if way := c.theirs(s); way != nil {
					way.retain()
					old, e.target = e.target, way
				}
				err = d.write(to)
			}
			if err != nil {
				exc = asException(err)
			}
		}
		if exc != nil {
			w, err := res.NewException()
			if err != nil {
				return err
			}
			return writeException(w, exc)
		}
		return nil
	})
	c.send(m)
	c.mu.Unlock()
	if old != nil {
		old.release()
	}
	if sub != nil {
		c.subscribe([]subscription{{sub, counted}})
	}
	c.outbox.flush()
}
