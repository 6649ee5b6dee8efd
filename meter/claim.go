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
// The claims of one meter are met in the order they came. When bytes are given back, one claim is woken: the
// first of some meter that can be met now. When that claim is met, ends, or finds that others were quicker,
// it wakes the next one. So a thousand waiting calls are not all woken when there is room for one of them.
type Claim struct {
	meter *Meter
	kind  Kind
	again chan struct{}

	n       int64 // what it waits for; queues.mu guards it
	entered bool  // it was in its queue at least once
	woken   bool  // it was woken; queues.mu guards it
	waits   bool  // it is in its queue; queues.mu guards it
}

// Claim returns a claim for k of m. [Claim.End] must follow, unless Take has returned true.
func (m *Meter) Claim(k Kind) *Claim {
	return &Claim{meter: m, kind: k, again: make(chan struct{}, 1)}
}

// Take is [Meter.TakeFirst]. If it returns false, the claim is in the queue.
func (c *Claim) Take(n int64) bool {
	if c.meter.TakeFirst(c.kind, n) {
		c.End()
		return true
	}
	if !c.entered {
		c.meter.Refused(c.kind)
	}
	c.entered = true
	late := c.meter.queues().enter(c, n)
	if c.meter.TakeFirst(c.kind, n) { // some was given back in the meantime
		c.End()
		return true
	}
	if late {
		c.meter.queues().tell(c.kind)
	}
	return false
}

// Again returns a channel that receives a value when it may be worth trying again.
func (c *Claim) Again() <-chan struct{} { return c.again }

// End leaves the queue. If the claim was woken, End wakes another in its place. A later Take enters the queue
// again, as the last.
func (c *Claim) End() {
	if c.entered {
		c.meter.queues().leave(c)
	}
}

// queues holds the claims on what all parts of a meter share, by meter and kind, in the order they came.
type queues struct {
	some atomic.Int64 // number of waiting claims
	mu   sync.Mutex
	of   map[queueKey][]*Claim
}

type queueKey struct {
	meter *Meter
	kind  Kind
}

func (c *Claim) key() queueKey { return queueKey{c.meter, c.kind} }

// queues returns the queues for m's claims: those of the topmost meter.
func (m *Meter) queues() *queues {
	for m.parent != nil {
		m = m.parent
	}
	return &m.claims
}

// enter puts c, which waits for n, into its queue. A claim that was woken becomes the first again. late
// reports that: others were quicker than the claim.
func (q *queues) enter(c *Claim, n int64) (late bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	c.n = n
	if c.waits {
		return false
	}
	if q.of == nil {
		q.of = map[queueKey][]*Claim{}
	}
	at := len(q.of[c.key()])
	if late = c.woken; late {
		at = 0
	}
	q.of[c.key()] = slices.Insert(q.of[c.key()], at, c)
	c.woken, c.waits = false, true
	q.some.Add(1)
	return late
}

// leave takes c out of its queue. If c was woken, another claim is woken.
func (q *queues) leave(c *Claim) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if c.waits {
		i := slices.Index(q.of[c.key()], c)
		q.remove(c, i)
	}
	if c.woken {
		c.woken = false
		q.wake(c.kind)
	}
}

// wake wakes one claim for k: the first of some meter's, if it can be met. q.mu is held.
func (q *queues) wake(k Kind) {
	for key, all := range q.of {
		c := all[0]
		if key.kind != k || !key.meter.couldFirst(k, c.n) {
			continue
		}
		q.remove(c, 0)
		c.woken = true
		select {
		case c.again <- struct{}{}:
		default:
		}
		return
	}
}

// remove takes c out of its queue, where it is at index i. q.mu is held.
func (q *queues) remove(c *Claim, i int) {
	key := c.key()
	if q.of[key] = slices.Delete(q.of[key], i, i+1); len(q.of[key]) == 0 {
		delete(q.of, key)
	}
	c.waits = false
	q.some.Add(-1)
}

// tell wakes one claim for k, as wake does.
func (q *queues) tell(k Kind) {
	if q.some.Load() == 0 {
		return
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	q.wake(k)
}
