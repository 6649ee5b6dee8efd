package meter

import (
	"slices"
	"sync"
	"sync/atomic"
)

// A Claim waits for room for message or reply bytes. It is used by one goroutine at a time.
//
//	for !claim.Take(n) {
//		<-claim.Again()
//	}
//
// What is given back wakes the first claim of each meter. That wakes the next when it was met, or ended. So
// what a thousand calls wait for does not wake them all, to no avail but for one.
type Claim struct {
	meter *Meter
	kind  Kind
	again chan struct{}

	entered bool // it was in its queue
	woken   bool // it was the first; under queues.mu
	waits   bool // it is in its queue; likewise
}

// Claim returns a claim for k of m. [Claim.End] has to follow unless Take has answered true.
func (m *Meter) Claim(k Kind) *Claim {
	return &Claim{meter: m, kind: k, again: make(chan struct{}, 1)}
}

// Take is [Meter.TakeFirst]. If it reports false the claim is in the queue.
func (c *Claim) Take(n int64) bool {
	if c.meter.takeFirst(c.kind, n) {
		c.End()
		return true
	}
	if !c.entered {
		c.meter.Refused(c.kind)
	}
	c.entered = true
	c.meter.queues().enter(c)
	if c.meter.takeFirst(c.kind, n) { // given back in the same moment
		c.End()
		return true
	}
	return false
}

// Again returns a channel from which something comes when it may be worth to try again.
func (c *Claim) Again() <-chan struct{} { return c.again }

// End leaves the queue. Whoever comes next is woken in place of a claim that was.
func (c *Claim) End() {
	if c.entered {
		c.meter.queues().leave(c)
	}
}

// queues are the claims on what all parts of a meter share, by meter and kind, in the order they came.
type queues struct {
	some atomic.Int64 // claims
	mu   sync.Mutex
	of   map[queueKey][]*Claim
}

type queueKey struct {
	meter *Meter
	kind  Kind
}

func (c *Claim) key() queueKey { return queueKey{c.meter, c.kind} }

// queues returns those that m's claims are in.
func (m *Meter) queues() *queues {
	for m.parent != nil {
		m = m.parent
	}
	return &m.claims
}

// enter puts c into its queue: where it was, when it was the first.
func (q *queues) enter(c *Claim) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if c.waits {
		return
	}
	if q.of == nil {
		q.of = map[queueKey][]*Claim{}
	}
	at := len(q.of[c.key()])
	if c.woken {
		at = 0
	}
	q.of[c.key()] = slices.Insert(q.of[c.key()], at, c)
	c.woken, c.waits = false, true
	q.some.Add(1)
}

// leave takes c out. If c was woken, the next is.
func (q *queues) leave(c *Claim) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if c.waits {
		i := slices.Index(q.of[c.key()], c)
		q.remove(c, i)
	}
	if c.woken {
		c.woken = false
		q.wake(c.key())
	}
}

// wake wakes the first of a queue. q.mu is held.
func (q *queues) wake(key queueKey) {
	if len(q.of[key]) == 0 {
		return
	}
	c := q.of[key][0]
	q.remove(c, 0)
	c.woken = true
	select {
	case c.again <- struct{}{}:
	default:
	}
}

// remove takes c from place i of its queue. q.mu is held.
func (q *queues) remove(c *Claim, i int) {
	key := c.key()
	if q.of[key] = slices.Delete(q.of[key], i, i+1); len(q.of[key]) == 0 {
		delete(q.of, key)
	}
	c.waits = false
	q.some.Add(-1)
}

// tell wakes the first of each meter that waits for k.
func (q *queues) tell(k Kind) {
	if q.some.Load() == 0 {
		return
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	for key := range q.of {
		if key.kind == k {
			q.wake(key)
		}
	}
}
