package meter

import (
	"slices"
	"sync/atomic"
	"time"
)

// A flow is the requests for turns of one lane that wait, of one meter and its parts. lane.mu
// guards it, except for the counters.
type flow struct {
	meter  *Meter
	parent *flow

	v       time.Duration // its virtual time, in its parent's count
	now     time.Duration // its virtual clock: where own, and parts, that were empty start
	own     turnList      // requests of the meter itself, in order
	going   turnList      // likewise, of turns that have a thread already: they need not wait behind those that may get none
	ownV    time.Duration // the virtual time of own and going
	active  []*flow       // parts in which something waits
	waiting int           // requests, in it and all parts
	stuck   bool          // there is no thread for own; see setStuck
	counted bool          // it is counted in able
	able    int           // how many flows can have a turn, of it and all parts
	served  time.Time     // when own last had a turn, or was empty

	turns atomic.Int64 // turns given
	spent atomic.Int64 // nanoseconds in turns of its own
}

// push appends t to what waits. A flow that was empty starts at the others' virtual time: it does
// not save up turns.
func (f *flow) push(t *Turn) {
	if !f.some() {
		f.ownV = max(f.ownV, f.now)
		f.served = t.asked
		f.stuck = false
	}
	if t.thread {
		f.going.push(t)
	} else {
		f.own.push(t)
	}
	for at := f; at != nil; at = at.parent {
		at.waiting++
		if p := at.parent; at.waiting == 1 && p != nil {
			at.v = max(at.v, p.now)
			p.active = append(p.active, at)
		}
	}
	f.count()
}

// some reports whether a request of f itself waits.
func (f *flow) some() bool { return f.own.first != nil || f.going.first != nil }

// remove takes t from what waits, and reports whether it waited.
func (f *flow) remove(t *Turn) bool {
	if t.in != &f.own && t.in != &f.going {
		return false
	}
	t.in.remove(t)
	f.count()
	for at := f; at != nil; at = at.parent {
		at.waiting--
		if p := at.parent; at.waiting == 0 && p != nil {
			p.active = slices.DeleteFunc(p.active, func(c *flow) bool { return c == at })
		}
	}
	return true
}

// next returns the flow whose own request gets the next turn, or nil when none can have one.
func (f *flow) next() *flow {
	var best *flow
	v := f.ownV
	if f.ready() {
		best = f
	}
	for _, c := range f.active {
		if (best == nil || c.v < v) && c.able > 0 {
			best, v = c, c.v
		}
	}
	if best == nil {
		return nil
	}
	f.now = max(f.now, v)
	if best == f {
		return f
	}
	return best.next()
}

// ready reports whether a request of f itself can have a turn.
func (f *flow) ready() bool { return f.going.first != nil || f.own.first != nil && !f.stuck }

// head returns the first request of f itself that can have a turn.
func (f *flow) head() *Turn {
	if f.going.first != nil {
		return f.going.first
	}
	return f.own.first
}

// setStuck notes whether there is no thread for f's own requests.
func (f *flow) setStuck(stuck bool) {
	f.stuck = stuck
	f.count()
}

// count updates able, here and above. Counting at each turn would cost more the deeper parts are
// nested.
func (f *flow) count() {
	ready := f.ready()
	if ready == f.counted {
		return
	}
	f.counted = ready
	n := -1
	if ready {
		n = 1
	}
	for at := f; at != nil; at = at.parent {
		at.able += n
	}
}

// charge counts time that a turn of f itself took.
func (f *flow) charge(d time.Duration) {
	f.ownV += d
	for at := f; at != nil; at = at.parent {
		at.v += d
	}
}

// each calls do with f and all parts in which something waits.
func (f *flow) each(do func(*flow)) {
	do(f)
	for _, c := range slices.Clone(f.active) {
		c.each(do)
	}
}
