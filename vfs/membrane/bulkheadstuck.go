package membrane

import (
	"slices"
	"time"
)

// checkStuck refuses the waiting calls of lanes in which no call ends. It runs again
// while any call waits.
func (b *Bulkhead) checkStuck() {
	b.mu.Lock()
	defer b.mu.Unlock()
	now, soonest := time.Now(), patience
	for _, l := range slices.Clone(b.turns) {
		since := b.ended
		if b.inside < b.max { // it waits for its own calls
			since = l.ended
		}
		if left := patience - now.Sub(since); left > 0 {
			soonest = min(soonest, left)
			continue
		}
		b.refuse(l)
	}
	b.timer = nil
	if b.waiting > 0 {
		b.timer = time.AfterFunc(soonest, b.checkStuck)
	}
}

// refuse tells every call that waits in l that the store is busy. A call that may not
// be refused waits on.
func (b *Bulkhead) refuse(l *lane) {
	if b.inside >= b.max {
		b.stuck = true
	} else {
		l.stuck = true
	}
	for _, s := range slices.Clone(l.shares) {
		for e := s.waiters.Front(); e != nil; {
			w := e.Value.(*waiter)
			e = e.Next()
			if !w.told {
				w.told = true
				close(w.refused)
			}
			if !w.stays {
				b.drop(l, w)
			}
		}
	}
	b.forget(l)
}
