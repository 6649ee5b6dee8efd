package vat

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"
)

// A promise is a capability that is not known yet: a part of the outcome of a call, or an import that the
// peer declared a promise. Calls on it go to where it leads for now, or wait in its queue. They keep their
// order when that changes.
type promise struct {
	refs   atomic.Int64
	ans    *answer // p is part of its outcome, at path; dropped when p has resolved
	path   []uint16
	few    [2]uint16   // memory for a short path
	out    pipe        // memory for dst while ans is the outcome of a question
	called atomic.Bool // calls were sent to the peer that resolves p

	mu       sync.Mutex
	dst      target // if nil, calls wait
	final    bool   // dst does not change any more; if nil, it is set when an embargo is lifted
	queue    []queued
	draining bool
	notify   []follower // peers to tell when p has settled
	known    signal     // it has settled
	held     bool       // the use of ans was given up
	losses   losses     // of calls that waited; for a part of an answer, the answer has them
	behind   int        // how many promises lead here, one after the other; guarded by resolving
}

// queued is a call, or a function to call after the calls before it.
type queued struct {
	request *request
	do      func()
}

// A pipe leads to a part of the outcome of a question that the peer has not returned.
type pipe struct {
	q    *question
	path []uint16
}

func (p *pipe) call(r *request) { panic("vat: a pipe is called through its promise") }
func (p *pipe) retain()         {}
func (p *pipe) release()        {}

func newPromise() *promise {
	p := new(promise)
	p.refs.Store(1)
	return p
}

func (p *promise) retain() { p.refs.Add(1) }

// tryRetain adds a reference. It reports false if there is none left.
func (p *promise) tryRetain() bool {
	for {
		n := p.refs.Load()
		if n == 0 {
			return false
		}
		if p.refs.CompareAndSwap(n, n+1) {
			return true
		}
	}
}

func (p *promise) release() {
	if p.refs.Add(-1) != 0 {
		return
	}
	p.mu.Lock()
	dst := p.dst
	p.dst, p.final = broken{ErrReleased}, true
	queue := p.queue
	p.queue = nil
	p.mu.Unlock()
	for _, it := range queue { // only echoes of embargoes can be left: every call holds a reference
		if it.request != nil {
			it.request.fail(ErrReleased)
		} else {
			it.do()
		}
	}
	if dst != nil {
		dst.release()
	}
	if p.letGo() {
		p.ans.leave(p)
	}
}

// letGo gives up the use of the answer that p is part of. It reports whether there was one: then the caller
// drops it.
func (p *promise) letGo() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	held := p.held
	p.held = true
	return p.ans != nil && !held
}

func (p *promise) call(r *request) {
	p.mu.Lock()
	if p.dst == nil || p.draining || len(p.queue) > 0 {
		p.retain()
		r.direct = false
		r.setQueue(p)
		p.queue = append(p.queue, queued{request: r})
		p.mu.Unlock()
		if r.isCanceled() && p.remove(r) {
			r.fail(ErrCanceled)
		}
		return
	}
	dst, final := p.dst, p.final
	if !final {
		p.called.Store(true)
	}
	dst.retain()
	p.mu.Unlock()
	if !pass(dst, r, final) {
		// The question was returned meanwhile: its outcome will be known very soon.
		p.retain()
		r.direct = false
		r.setQueue(p)
		p.mu.Lock()
		p.queue = append([]queued{{request: r}}, p.queue...)
		if p.dst == dst {
			p.dst = nil
		}
		p.mu.Unlock()
		p.drain()
	}
	dst.release()
}

// pass makes the call r on t, where a promise leads. It reports false and leaves r alone if t is a pipe whose
// question was returned, or an import that was a promise and has resolved. With final, an import is always
// right.
func pass(t target, r *request, final bool) bool {
	if pp, ok := t.(*pipe); ok {
		return pp.q.conn.ask(r, nil, pp, false)
	}
	if i, ok := t.(*importCap); ok {
		return i.conn.ask(r, i, nil, !final)
	}
	t.call(r)
	return true
}

// after calls f when all earlier calls have gone where p leads.
func (p *promise) after(f func()) {
	p.mu.Lock()
	if p.dst != nil && !p.draining && len(p.queue) == 0 {
		p.mu.Unlock()
		f()
		return
	}
	p.queue = append(p.queue, queued{do: f})
	p.mu.Unlock()
}

// A follower is a peer that holds a promise, as the export with that number.
type follower struct {
	conn *Conn
	id   uint32
}

// whenSettled makes c send Resolve once p has resolved for good and its queue is empty.
func (p *promise) whenSettled(c *Conn, id uint32) {
	p.mu.Lock()
	if p.final && p.dst != nil && !p.draining && len(p.queue) == 0 {
		p.mu.Unlock()
		c.sendResolve(p, id)
		return
	}
	defer p.mu.Unlock()
	for i := range p.notify { // one for each peer: an earlier number is no longer in use
		if p.notify[i].conn == c {
			p.notify[i].id = id
			return
		}
	}
	p.notify = append(p.notify, follower{c, id})
}

// wait waits until p has resolved for good, or ctx ends.
func (p *promise) wait(ctx context.Context) error {
	p.mu.Lock()
	if p.final && p.dst != nil && !p.draining && len(p.queue) == 0 {
		p.mu.Unlock()
		return nil
	}
	known := p.known.next()
	p.mu.Unlock()
	select {
	case <-known:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// leads returns where p leads for now, or nil.
func (p *promise) leads() target {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.dst
}

// leadsBack reports whether p leads to c's peer, for good or for now.
func (p *promise) leadsBack(c *Conn) bool {
	dst := p.leads()
	if dst == nil {
		return false
	}
	switch t := settle(dst).(type) {
	case *importCap:
		return t.conn == c
	case *pipe:
		return t.q.conn == c
	case *promise:
		return t.leadsBack(c)
	}
	return false
}

// settled returns where p leads if that is final and no call waits.
func (p *promise) settled() (target, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.final && p.dst != nil && !p.draining && len(p.queue) == 0 {
		return p.dst, true
	}
	return nil, false
}

// remove removes a cancelled call from the queue. It reports the loss first, while later calls still wait
// behind the call, so that none of them arrives before the loss.
func (p *promise) remove(r *request) bool {
	p.mu.Lock()
	there := p.place(r) >= 0
	p.mu.Unlock()
	if !there {
		return false
	}
	p.lose(loss{methodKey{r.iface, r.method}, ErrCanceled})
	p.mu.Lock()
	i := p.place(r)
	if i < 0 { // it has left the queue, and fails elsewhere
		p.mu.Unlock()
		return false
	}
	p.queue = slices.Delete(p.queue, i, i+1)
	p.mu.Unlock()
	p.release()
	return true
}

// place returns the index of r in the queue, or -1. Called with p.mu held.
func (p *promise) place(r *request) int {
	return slices.IndexFunc(p.queue, func(it queued) bool { return it.request == r })
}

// drain moves the queue to where p leads, in order. Only one goroutine at a time does so.
func (p *promise) drain() {
	p.mu.Lock()
	if p.draining {
		p.mu.Unlock()
		return
	}
	p.draining = true
	for len(p.queue) > 0 && p.dst != nil {
		it := p.queue[0]
		p.queue[0] = queued{}
		p.queue = p.queue[1:]
		dst, final := p.dst, p.final
		dst.retain()
		if !final && it.request != nil {
			p.called.Store(true)
		}
		p.mu.Unlock()
		done := true
		if it.request == nil {
			it.do()
		} else if done = pass(dst, it.request, final); done {
			p.release()
		}
		dst.release()
		p.mu.Lock()
		if !done {
			p.queue = append([]queued{it}, p.queue...)
			if p.dst == dst {
				p.dst = nil
			}
		}
	}
	if len(p.queue) == 0 {
		p.queue = nil
	}
	p.draining = false
	var notify []follower
	if p.final && p.dst != nil {
		notify = p.notify
		p.notify = nil
		p.known.broadcast()
	}
	p.mu.Unlock()
	for _, f := range notify {
		f.conn.sendResolve(p, f.id)
	}
}
