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
// The claims of a meter are met in the order they came. What is given back wakes one claim, the first of some meter that
// can be met now. That claim wakes the next such one when it was met, or ended, or came too late. So a thousand calls
// that wait are not all woken where one of them can be met.
type Claim struct {
	meter *Meter
	kind  Kind
	again chan struct{}

	n       int64 // what it waits for; under queues.mu
	entered bool  // it was in its queue
	woken   bool  // it was the first; under queues.mu
	waits   bool  // it is in its queue; likewise
}

// Claim returns a claim for k of m. [Claim.End] has to follow unless Take has answered true.
func (m *Meter) Claim(k Kind) *Claim {
	return &Claim{meter: m, kind: k, again: make(chan struct{}, 1)}
}

// Take is [Meter.TakeFirst]. If it reports false the claim is in the queue.
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
	if c.meter.TakeFirst(c.kind, n) { // given back in the same moment
		c.End()
		return true
	}
	if late {
		c.meter.queues().tell(c.kind)
	}
	return false
}

// Again returns a channel from which something comes when it may be worth to try again.
func (c *Claim) Again() <-chan struct{} { return c.again }

// End leaves the queue. Another claim is woken in place of one that was. Take enters the queue again, as the last.
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

// enter puts c, which waits for n, into its queue. One that was woken is the first again: others were quicker, which late
// reports.
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

// leave takes c out. If c was woken, another is.
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

// wake wakes the first of some meter's that wait for k, if it can be met. q.mu is held.
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

// remove takes c from place i of its queue. q.mu is held.
func (q *queues) remove(c *Claim, i int) {
	key := c.key()
	if q.of[key] = slices.Delete(q.of[key], i, i+1); len(q.of[key]) == 0 {
		delete(q.of, key)
	}
	c.waits = false
	q.some.Add(-1)
}

// tell wakes one who waits for k, as wake does.
func (q *queues) tell(k Kind) {
	if q.some.Load() == 0 {
		return
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	q.wake(k)
}
