package vat

import "sync"

// redirect makes calls go to dst from now on, and those that wait go first. It takes over the reference to
// dst. After a final redirect others have no effect.
func (p *promise) redirect(dst target, final bool) {
	if final {
		resolving.Lock()
		if exc := p.mayLeadTo(dst); exc != nil {
			defer dst.release()
			dst = broken{exc}
		}
	}
	p.mu.Lock()
	old := dst
	if !p.final || final && p.dst == nil {
		old, p.dst, p.final = p.dst, dst, p.final || final
	}
	p.mu.Unlock()
	if final {
		resolving.Unlock()
	}
	if old != nil {
		old.release()
	}
	if final {
		p.passLosses()
	}
	p.drain()
	if final && p.letGo() {
		p.ans.drop()
	}
}

// resolving serializes final redirects, so that two of them cannot close a cycle.
var resolving sync.Mutex

// maxChain bounds how many promises may lead to one another, since a peer could resolve each to the next
// forever.
const maxChain = 32

// mayLeadTo returns an exception if p leading to t would close a cycle or make a chain too long. Called with
// resolving held.
func (p *promise) mayLeadTo(t target) *Exception {
	behind := p.behind
	for range maxChain {
		q, ok := t.(*promise)
		if !ok {
			return nil
		}
		if q == p {
			return errCycle
		}
		if behind++; behind > maxChain {
			return limitf("promises that resolve to promises")
		}
		q.behind = max(q.behind, behind)
		q.mu.Lock()
		t = nil
		if q.final {
			t = q.dst
		}
		q.mu.Unlock()
	}
	return limitf("promises that resolve to promises")
}

// resolve makes p, a part of the outcome of q, lead to t. It takes over the reference to t. q is nil if the
// call was not sent.
//
// If calls on p were sent to the peer of q's connection, and t is not there, those calls have yet to come
// back. Then later calls wait until the peer has answered a Disembargo (rpc.capnp, Disembargo).
func (p *promise) resolve(t target, q *question) {
	if q != nil && p.hold(t, q.conn, q.elsewhere) && q.conn.embargo(p, t, &pipe{q, p.path}) {
		return
	}
	p.redirect(t, true)
}

// resolveImport is resolve for a promise that the peer has resolved.
func (p *promise) resolveImport(t target, i *importCap) {
	if p.hold(t, i.conn, false) && i.conn.embargo(p, t, i) {
		return
	}
	p.redirect(t, true)
}

// hold makes calls wait if they need an embargo when p moves from c's peer to t. It reports whether they do.
func (p *promise) hold(t target, c *Conn, elsewhere bool) bool {
	must, promised := c.mustEmbargo(t, elsewhere)
	p.mu.Lock()
	called, old := p.called.Load(), p.dst
	p.dst, p.final = nil, true // no call goes the old way any more
	p.mu.Unlock()
	if old != nil {
		old.release()
	}
	if promised != nil && called {
		promised.called.Store(true) // its calls come after these
	}
	return must && called
}
