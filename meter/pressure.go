package meter

import "time"

// A grant that is alone may have eight turns of Work for each processor, since most calls wait for the disk. When
// several grants are active, so many running calls would delay all others: Go looks at the network only when a
// processor has nothing else to run. So there are half as many turns as processors then. A call that waits for the
// disk gives its turn up meanwhile, or has it lent to another.

// activeFor is for how long a grant counts as one that does something.
const activeFor = 2 * time.Second

// activity is when a root grant was last seen to have done something. Under the mutex of the lane of Work.
type activity struct {
	turns int64
	at    time.Time
}

// press sets how many turns there are, by how many root grants do something. l.mu is held.
func (l *lane) press(now time.Time) {
	active := 0
	for _, m := range l.root.meter.Parts() {
		if n := m.given(); n != m.activity.turns {
			m.activity = activity{n, now}
		}
		if now.Sub(m.activity.at) < activeFor {
			active++
		}
	}
	slots := l.alone
	if active > 1 {
		slots = l.shared
	}
	l.slots.Store(slots)
}

// given returns how many turns m and its parts were given in all lanes.
func (m *Meter) given() (n int64) {
	for i := range m.flows {
		n += m.flows[i].turns.Load()
	}
	for _, p := range m.Parts() {
		n += p.given()
	}
	return n
}
