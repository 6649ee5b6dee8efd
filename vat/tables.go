package vat

import "sync/atomic"

// The entries of the four tables (rpc.capnp, "The Four Tables"). Conn.mu guards them.

// A question is a call to the peer that the peer has not returned, or that we have not finished.
type question struct {
	conn     *Conn
	id       uint32
	ans      *answer
	exports  []uint32 // exports in its parameters, for Return.releaseParamCaps
	returned bool
	finished bool      // Finish was sent before Return came
	via      *question // its target is part of the outcome of this question
	piped    int       // open calls on a part of its outcome
	called   methodKey
	aimedAt  bool // a call on its outcome was made before it was returned
	patient  bool // it waited for the next call before it left

	elsewhere bool // its outcome is that of a call that the peer made here: Return.takeFromOtherQuestion
}

// aim records that q is a call on the outcome of via. The next call of via's method is then likely to have
// such a call, too. Called with Conn.mu held.
func (q *question) aim(via *question) {
	q.via = via
	via.piped++
	via.aimedAt = true
	q.conn.pipelined = via.called
}

// over records that q does not wait any more. Called with Conn.mu held.
func (q *question) over() {
	if q.via != nil {
		q.via.piped--
		q.via = nil
	}
	if q.patient && !q.aimedAt && q.conn.pipelined == q.called {
		q.conn.pipelined = methodKey{}
	}
}

// An answerEntry is the state in the table of answers of a call that came in.
type answerEntry struct {
	yourself bool // Call.sendResultsTo.yourself
	returned bool
	finished bool
	exports  []uint32 // exports in its results, for Finish.releaseResultCaps
	few      [2]uint32
	bytes    int64 // of results, kept until Finish
}

// An export is a capability that the peer holds.
type export struct {
	target   target // has a reference
	refs     uint64 // references that the peer has
	resolved bool   // a promise for which Resolve was sent
}

// An importCap is a target: a capability that the peer hosts and this side holds.
type importCap struct {
	conn *Conn
	id   uint32
	refs atomic.Int64 // references here

	wire    uint64   // references as the peer counts them; guarded by conn.mu
	promise *promise // not nil while the peer may still resolve it; guarded by conn.mu
	moved   bool     // a Disembargo was sent after the promise's calls; guarded by conn.mu
}

func (i *importCap) call(r *request) { i.conn.ask(r, i, nil, false) }
func (i *importCap) retain()         { i.refs.Add(1) }

func (i *importCap) release() {
	if i.refs.Add(-1) != 0 {
		return
	}
	c := i.conn
	c.mu.Lock()
	// The peer may have sent it again, or another release may have removed it, before the lock was taken.
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

// imported returns the target for a capability that the peer hosts, and counts a reference to release: the
// peer counts one each time it sends the capability (rpc.capnp, CapDescriptor.senderHosted, senderPromise and
// Release). The reference to the target is the caller's. Called with c.mu held.
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
		// The last reference to the promise is being released, so make a new promise.
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

// exported counts one more reference of the peer to t. The caller has a reference to t. Called with c.mu
// held.
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

// unexport takes back n references of the peer (rpc.capnp, Release). If none is left, it returns the target,
// to release without the lock. Called with c.mu held.
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

// unexportAll takes back one reference to each export in list. It appends the targets to release to gone.
func (c *Conn) unexportAll(gone []target, list []uint32) []target {
	for _, id := range list {
		// If the peer has released it already with a Release, that is its mistake, and harmless.
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
