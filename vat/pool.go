package vat

import "sync"

// A pool runs requests on a bounded number of goroutines, which it starts as they are needed and which end when
// there is nothing to do. Requests start in the order of submit. Each connection has its own, so that one that
// has exhausted its pool is a problem of its own.
type pool struct {
	max int

	mu      sync.Mutex
	queue   []*request // from head on
	head    int
	workers int
}

// local runs the calls that were made in this process: as many as there are, since whoever makes them bounds
// them, and a bound here would make handlers that call one another wait for each other.
var local = &pool{max: 1 << 30}

func (p *pool) submit(r *request) {
	p.mu.Lock()
	if len(p.queue) == cap(p.queue) && p.head > len(p.queue)/2 { // rather move what waits than grow
		n := copy(p.queue, p.queue[p.head:])
		clear(p.queue[n:])
		p.queue, p.head = p.queue[:n], 0
	}
	p.queue = append(p.queue, r)
	start := p.workers < p.max
	if start {
		p.workers++
	}
	p.mu.Unlock()
	if start {
		go p.work()
	}
}

func (p *pool) work() {
	for r := p.next(); r != nil; r = p.next() {
		r.guarded()
	}
}

// next takes what has waited longest. When nothing waits it returns nil, and the worker is to end.
func (p *pool) next() *request {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.head == len(p.queue) {
		p.queue, p.head = p.queue[:0], 0
		if cap(p.queue) > 1024 {
			p.queue = nil
		}
		p.workers--
		return nil
	}
	r := p.queue[p.head]
	p.queue[p.head] = nil
	p.head++
	return r
}
