package meter

import (
	"slices"
	"sync/atomic"
	"time"
)

// A flow is what waits for turns of one lane, of one meter and its parts. All but the counts is
// under lane.mu.
type flow struct {
	meter  *Meter
	parent *flow

	v       time.Duration // the time that it has had, in the parent's count
	now     time.Duration // where the count of its own stands
	own     turnList      // the meter's own, in the order they asked
	going   turnList      // likewise, those that have a thread: they do not wait behind others, who may get none
	ownV    time.Duration // the time that they have had
	active  []*flow       // parts of which something waits
	waiting int           // in all
	stuck   bool          // there is no thread for its own; see setStuck
	counted bool          // it counts as ready
	able    int           // how many can go, of it and all parts
	served  time.Time     // when its own last had a turn, or waited for nothing

	turns atomic.Int64 // given
	spent atomic.Int64 // nanoseconds, of its own
}

// push appends t to what waits. A flow that nothing waited in begins where the others are, and not
// with what it did not use.
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

// some reports whether something of f's own waits.
func (f *flow) some() bool { return f.own.first != nil || f.going.first != nil }

// remove takes t from what waits, and reports whether it was there.
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

// next returns the flow whose own is to have the next turn, nil when none of what waits can go.
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

// ready reports whether the first of f's own can go.
func (f *flow) ready() bool { return f.going.first != nil || f.own.first != nil && !f.stuck }

// head is the first of f's own that can go.
func (f *flow) head() *Turn {
	if f.going.first != nil {
		return f.going.first
	}
	return f.own.first
}

// setStuck says whether there is a thread for f's own.
func (f *flow) setStuck(stuck bool) {
	f.stuck = stuck
	f.count()
}

// count keeps what able says, here and above: looking for it at each turn would cost the more
// the deeper the parts lie in one another.
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

// charge counts time that f's own had.
func (f *flow) charge(d time.Duration) {
	f.ownV += d
	for at := f; at != nil; at = at.parent {
		at.v += d
	}
}

// each calls do with f and all parts of which something waits.
func (f *flow) each(do func(*flow)) {
	do(f)
	for _, c := range slices.Clone(f.active) {
		c.each(do)
	}
}
