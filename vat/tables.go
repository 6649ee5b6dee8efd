package vat

import "sync/atomic"

// The entries of the four tables (rpc.capnp, "The Four Tables"), all guarded by Conn.mu.

// A question is a call of ours that the peer has not returned, or that we have not finished.
type question struct {
	conn     *Conn
	id       uint32
	ans      *answer
	exports  []uint32 // what its parameters gave the peer, for Return.releaseParamCaps
	returned bool
	finished bool      // Finish was sent before Return came
	via      *question // its target is part of the outcome of this one
	piped    int       // calls that were aimed at its outcome so, and are open
	called   methodKey
	aimedAt  bool // by a call, before it was returned
	patient  bool // it left with what came next

	elsewhere bool // its outcome is that of a call which the peer made here: Return.takeFromOtherQuestion
}

// aim notes that q is aimed at the outcome of via: it is likely that the next call of that method has a call aimed at it
// too. Called with Conn.mu held.
func (q *question) aim(via *question) {
	q.via = via
	via.piped++
	via.aimedAt = true
	q.conn.pipelined = via.called
}

// over notes that q waits for nothing any more. Called with Conn.mu held.
func (q *question) over() {
	if q.via != nil {
		q.via.piped--
		q.via = nil
	}
	if q.patient && !q.aimedAt && q.conn.pipelined == q.called {
		q.conn.pipelined = methodKey{}
	}
}

// An answerEntry is what an answer that came in has beside its outcome.
type answerEntry struct {
	yourself bool // Call.sendResultsTo.yourself
	returned bool
	finished bool
	exports  []uint32 // what its results gave the peer, for Finish.releaseResultCaps
	few      [2]uint32
	bytes    int64 // of results kept until Finish
}

// An export is a capability that the peer holds.
type export struct {
	target   target // one reference
	refs     uint64 // that the peer holds
	resolved bool   // a promise, and Resolve was sent
}

// An importCap is a capability of the peer's that is held here: a target.
type importCap struct {
	conn *Conn
	id   uint32
	refs atomic.Int64 // held here

	wire    uint64   // references that the peer counts; guarded by conn.mu
	promise *promise // the peer may still resolve it; guarded by conn.mu
	moved   bool     // a Disembargo was sent after the promise's calls; likewise
}

func (i *importCap) call(r *request) { i.conn.ask(r, i, nil, false) }
func (i *importCap) retain()         { i.refs.Add(1) }

func (i *importCap) release() {
	if i.refs.Add(-1) != 0 {
		return
	}
	c := i.conn
	c.mu.Lock()
	// It may have come in once more, or have been released by another, between there and here.
	if c.closed || i.refs.Load() != 0 || c.imports[i.id] != i {
		c.mu.Unlock()
		return
	}
	delete(c.imports, i.id)
	urgent := c.owe(keptCap)
	for n := i.wire; n > 0; {
		part := min(n, 1<<31)
		c.outbox.short(newRelease(i.id, uint32(part)), urgent)
		n -= part
	}
	c.mu.Unlock()
	if urgent {
		c.outbox.flush()
	}
}

// imported returns the target for a capability that the peer says it hosts, counting it: each time that it is named is
// a reference to release (rpc.capnp, CapDescriptor.senderHosted, senderPromise and Release). Called with c.mu held;
// the reference is the caller's.
func (c *Conn) imported(id uint32, promised bool) (target, error) {
	i := c.imports[id]
	if i == nil {
		if len(c.imports) >= c.limits.Imports {
			return nil, protocolf("more than %d capabilities of one peer's", c.limits.Imports)
		}
		i = &importCap{conn: c, id: id}
		c.imports[id] = i
		if promised {
			p := newPromise()
			p.dst = i
			i.promise = p
			i.refs.Store(1)
			i.wire = 1
			return p, nil
		}
	}
	i.wire++
	if p := i.promise; p != nil {
		if p.tryRetain() {
			return p, nil
		}
		// The last reference to the promise is being released: it becomes a new one.
		q := newPromise()
		q.called.Store(p.called.Load())
		q.dst = i
		i.refs.Add(1)
		i.promise = q
		return q, nil
	}
	i.refs.Add(1)
	return i, nil
}

// exported counts one more reference of the peer's to t. Called with c.mu held by one who holds a reference to
// t.
func (c *Conn) exported(t target) (id uint32, fresh bool, err *Exception) {
	if id, ok := c.exportIDs[t]; ok {
		c.exports.get(id).refs++
		return id, false, nil
	}
	if c.exports.len() >= c.limits.Exports {
		return 0, false, limitf("%d capabilities are held over this connection already; release some", c.exports.len())
	}
	t.retain()
	id = c.freeExports.take()
	c.exports.put(id, &export{target: t, refs: 1})
	c.exportIDs[t] = id
	return id, true, nil
}

// unexport takes n of the peer's references back (rpc.capnp, Release). When none is left, the target is returned to
// be released once the lock is. Called with c.mu held.
func (c *Conn) unexport(id uint32, n uint64) (target, error) {
	e := c.exports.get(id)
	if e == nil {
		return nil, protocolf("release of a capability that was never exported")
	}
	if n > e.refs {
		return nil, protocolf("release of more references than were given")
	}
	if e.refs -= n; e.refs > 0 {
		return nil, nil
	}
	c.exports.remove(id)
	if c.exportIDs[e.target] == id {
		delete(c.exportIDs, e.target)
	}
	c.freeExports.put(id)
	return e.target, nil
}

// unexportAll takes one reference of each back, and appends the targets to release to gone.
func (c *Conn) unexportAll(gone []target, list []uint32) []target {
	for _, id := range list {
		// The peer may have released it already, by a Release of its own: then it is its mistake, and harmless.
		if t, err := c.unexport(id, 1); err == nil && t != nil {
			gone = append(gone, t)
		}
	}
	return gone
}

func releaseAll(list []target) {
	for _, t := range list {
		t.release()
	}
}
