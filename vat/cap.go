package vat

import (
	"context"
	"sync"
	"sync/atomic"

	"capd/meter"
)

// A Cap is one counted reference to a capability: hosted here, hosted by a peer, or promised. The nil *Cap is
// the null capability. It is safe for concurrent use.
type Cap struct {
	target   target
	mu       sync.Mutex
	released bool
	window   atomic.Pointer[window] // of streaming calls made on this reference
}

// A target is what a reference leads to.
type target interface {
	// call takes over r, which it must bring to an end. It does not block, unless the request may run at once
	// on the caller's goroutine.
	call(r *request)
	// retain and release count references. Whoever retains holds one already. release may run an object's
	// Release method: hold no lock.
	retain()
	release()
}

// newCap takes over one reference to t. A nil t is the null capability.
func newCap(t target) *Cap {
	if t == nil {
		return nil
	}
	return &Cap{target: t}
}

// AddRef returns another reference to the same capability.
func (c *Cap) AddRef() *Cap {
	if c == nil {
		return nil
	}
	return newCap(c.use())
}

// Release gives up the reference. Calls already made are not affected. Further calls of Release on the same
// reference do nothing.
func (c *Cap) Release() {
	if c == nil {
		return
	}
	c.mu.Lock()
	first := !c.released
	c.released = true
	c.mu.Unlock()
	if first {
		c.target.release()
	}
}

// use returns what c leads to, as far as that is settled, with a reference of the caller's own.
func (c *Cap) use() target {
	if c == nil {
		return broken{ErrNull}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.released {
		return broken{ErrReleased}
	}
	t := settle(c.target)
	t.retain()
	return t
}

// Serve makes self a capability that is hosted here and answers t's methods. When its last reference is gone,
// here and on every connection, and no call on it runs any more, self's method Release() is called once, if it
// has one.
//
// If self has a method StreamBroken(*Exception), it is called whenever a call of a `-> stream` method on it has failed, with
// the failure: the handler's own, or because the call was cancelled or refused and the handler never ran. Calls after that
// one are not the whole stream. StreamBroken may run beside a handler, and before calls that came earlier. It must not block.
func Serve(t *Table, self any) *Cap {
	o := &object{table: t, self: self}
	o.refs.Store(1)
	return newCap(o)
}

// Local returns the value behind a capability that this process hosts, also when it went over a connection and
// came back. It reports false for every other capability, and for promises that have not resolved.
func Local[T any](c *Cap) (T, bool) {
	t := c.use()
	defer t.release()
	if o, ok := settle(t).(*object); ok {
		self, ok := o.self.(T)
		return self, ok
	}
	var zero T
	return zero, false
}

// Settle waits until it is known where c leads: until it is no promise any more, or one that has failed. A peer
// may take for ever to resolve a promise of its own: let ctx end. [Local] can tell only afterwards.
func (c *Cap) Settle(ctx context.Context) error {
	t := c.use()
	defer t.release()
	for {
		p, ok := settle(t).(*promise)
		if !ok {
			return nil
		}
		flushTo(p)
		var err error
		if late := meter.Wait(ctx, func() { err = p.wait(ctx) }); err == nil {
			err = late
		}
		if err != nil {
			return err
		}
	}
}

// Pending reports whether calls made on c wait here, until it is known where it leads: what they carry is held here for
// as long.
func (c *Cap) Pending() bool {
	t := c.use()
	defer t.release()
	return pending(t)
}

// pending is Pending for what c.use returned.
func pending(t target) bool {
	_, unknown := t.(*promise)
	return unknown && via(t) == nil
}

// Broken returns a capability on which every call fails with err.
func Broken(err error) *Cap { return newCap(broken{asException(err)}) }

// broken is a target that fails every call.
type broken struct{ err *Exception }

func (b broken) call(r *request) { r.fail(b.err) }
func (broken) retain()           {}
func (broken) release()          {}

// settle follows promises as far as they have resolved for good. The result is the caller's no longer than t is.
func settle(t target) target {
	for {
		p, ok := t.(*promise)
		if !ok {
			return t
		}
		next, ok := p.settled()
		if !ok {
			return t
		}
		t = next
	}
}
