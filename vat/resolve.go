package vat

import "sync"

// redirect makes calls go to dst from now on, those that wait first. It takes over the reference to dst. After a
// final one there is no other.
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

// resolving serializes the decisions of promises, so that two of them cannot close a cycle.
var resolving sync.Mutex

// maxChain is how many promises may lead to one another. A peer could resolve one to the next for ever.
const maxChain = 32

// mayLeadTo refuses a decision that would close a cycle or make a chain too long. Called with resolving held.
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

// resolve decides where p, a part of q's outcome, leads. It takes over the reference to t. q is nil where the call
// never left.
//
// If calls went to the peer of q's connection, and t is not there, those calls are still on their way around:
// calls made from now on wait until the peer has answered a Disembargo (rpc.capnp, Disembargo).
func (p *promise) resolve(t target, q *question) {
	if q != nil && p.hold(t, q.conn, q.elsewhere) && q.conn.embargo(p, t, &pipe{q, p.path}, nil) {
		return
	}
	p.redirect(t, true)
}

// resolveImport is resolve for a promise that the peer has resolved.
func (p *promise) resolveImport(t target, i *importCap) {
	if p.hold(t, i.conn, false) && i.conn.embargo(p, t, nil, i) {
		return
	}
	p.redirect(t, true)
}

// hold makes calls wait if moving p from c's peer to t needs an embargo, and reports whether it does.
func (p *promise) hold(t target, c *Conn, elsewhere bool) bool {
	must, promised := c.mustEmbargo(t, elsewhere)
	p.mu.Lock()
	called, old := p.called.Load(), p.dst
	p.dst, p.final = nil, true // none goes the old way any more
	p.mu.Unlock()
	if old != nil {
		old.release()
	}
	if promised != nil && called {
		promised.called.Store(true) // its calls come after these
	}
	return must && called
}
