package meter

import (
	"sync/atomic"
	"time"
)

// A grant that is alone may have eight turns of Work for each processor, since most calls wait for the disk. When
// several grants are active, so many running calls would delay all others: Go looks at the network only when a
// processor has nothing else to run. So there are half as many turns as processors then. A call that waits for the
// disk gives its turn up meanwhile, or has it lent to another.

// activeFor is for how long a grant counts as one that does something.
const activeFor = 2 * time.Second

// activity is whether somebody in a root grant does something.
type activity struct {
	turned atomic.Bool // one was given a turn since press looked last
	last   time.Time   // when press saw that; under the mutex of the lane of Work
}

// actors is how many in a root grant are told apart: the grant itself is the first, and its shares are the others in turn, so
// that two of them are not taken for one as a rule.
const actors = 4

// turn counts one turn of l for m, and returns how many it was given.
func (m *Meter) turn(l Lane) int64 {
	if a := &m.grant.activity[m.actor]; !a.turned.Load() {
		a.turned.Store(true)
	}
	return m.flows[l].turns.Add(1)
}

// press sets how many turns there are, by how many grants and shares do something. l.mu is held.
func (l *lane) press(now time.Time) {
	slots := l.alone
	if l.root.meter.active(now) > 1 {
		slots = l.shared
	}
	l.slots.Store(slots)
}

// active is how many do something in the parts of m. It looks at no part of theirs, of which there may be many.
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
