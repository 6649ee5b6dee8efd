package membrane

import (
	"container/list"
	"slices"
	"time"

	"capd/meter"
)

// lane is the calls of one root grant.
type lane struct {
	grant   *meter.Meter // nil for the host's own calls
	inside  int
	waiting int
	shares  []*share  // those with waiting calls; the first is next
	ended   time.Time // as Bulkhead.ended, for this lane
	stuck   bool      // as Bulkhead.stuck, while the lane has all the slots that it may have
}

// share is the waiting calls of one part of a grant.
type share struct {
	meter   *meter.Meter
	waiters list.List // of *waiter, in the order they came
}

// waiter is a call that waits for a slot.
type waiter struct {
	in       *share
	at       *list.Element // its place in waiters; nil once it left
	admitted chan struct{} // closed when it is admitted
	refused  chan struct{} // closed when it is refused as busy
	stays    bool          // it waits on after a refusal
	told     bool
}

// Everything below is called with Bulkhead.mu held.

// push appends w, a call of m, to the queue.
func (l *lane) push(m *meter.Meter, w *waiter) {
	i := slices.IndexFunc(l.shares, func(s *share) bool { return s.meter == m })
	if i < 0 {
		i = len(l.shares)
		l.shares = append(l.shares, &share{meter: m})
	}
	w.in = l.shares[i]
	w.at = w.in.waiters.PushBack(w)
	l.waiting++
}

// next returns the longest waiting call of the share whose turn it is.
func (l *lane) next() *waiter {
	s := l.shares[0]
	l.shares = append(l.shares[1:], s)
	return s.waiters.Front().Value.(*waiter)
}

func (l *lane) remove(w *waiter) {
	w.in.waiters.Remove(w.at)
	w.at = nil
	l.waiting--
	if w.in.waiters.Len() == 0 {
		l.shares = slices.DeleteFunc(l.shares, func(s *share) bool { return s == w.in })
	}
}
