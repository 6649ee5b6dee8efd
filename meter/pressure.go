package meter

import (
	"sync/atomic"
	"time"
)

// A grant that is alone may have eight turns of Work for each processor, since most calls wait for the disk.
// When several grants are active, so many running calls would delay all others: Go polls the network only
// when a processor has nothing else to run. So there are then half as many turns as processors. A call that
// waits for the disk gives its turn up meanwhile, or its turn is lent to another.

// activeFor is how long a grant counts as active after a turn.
const activeFor = 2 * time.Second

// activity records whether an actor of a root grant is active.
type activity struct {
	turned atomic.Bool // a turn was given since press last looked
	last   time.Time   // when press last saw turned; guarded by the mutex of the lane Work
}

// actors is how many actors of a root grant are told apart. The grant itself is the first. Its shares take
// the other places in turn, so that two of them usually differ.
const actors = 4

// turn counts one turn of l for m, and returns how many m was given.
func (m *Meter) turn(l Lane) int64 {
	if a := &m.grant.activity[m.actor]; !a.turned.Load() {
		a.turned.Store(true)
	}
	return m.flows[l].turns.Add(1)
}

// press sets how many turns there are, by how many grants and shares are active. l.mu is held.
func (l *lane) press(now time.Time) {
	slots := l.alone
	if l.root.meter.active(now) > 1 {
		slots = l.shared
	}
	l.slots.Store(slots)
}

// active returns how many actors are active in the parts of m. It does not visit parts of those, since there
// may be many.
func (m *Meter) active(now time.Time) (n int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for p := range m.parts {
		for i := range p.activity {
			a := &p.activity[i]
			if a.turned.Swap(false) {
				a.last = now
			}
			if now.Sub(a.last) < activeFor {
				n++
			}
		}
	}
	return n
}
