package vat

import (
	"context"
	"sync"
	"sync/atomic"

	"capd/meter"
)

// A Cap is one counted reference to a capability, which is hosted here, hosted by a peer, or promised. The
// nil *Cap is the null capability. A Cap is safe for concurrent use.
type Cap struct {
	target   target
	mu       sync.Mutex
	released bool
	window   atomic.Pointer[window] // of streaming calls made on this reference
}

// A target is what a reference leads to.
type target interface {
	// call takes over r, and must complete it. It does not block, unless the request may run on the caller's
	// goroutine.
	call(r *request)
	// retain and release count references. The caller of retain already holds one. release may call an
	// object's Release method, so the caller must hold no lock.
	retain()
	release()
}

// newCap takes over a reference to t. If t is nil, it returns the null capability.
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

// Release gives up the reference. Calls already made go on. Only the first Release of a reference has an
// effect.
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

// use returns the target of c, past all resolved promises, with a reference for the caller.
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

// Serve returns a capability that is hosted here: self answers the methods of t. If self has a method
// Release(), it is called once, when no reference is left, here and on every connection, and no call on self
// is running.
//
// If self has a method StreamBroken(*Exception), it is called for every failed call of a `-> stream` method,
// with the failure: the error of the handler, or that of a call that was cancelled or refused before its
// handler ran. The later calls are then not the whole stream. StreamBroken may run at the same time as a
// handler, and before earlier calls. It must not block.
func Serve(t *Table, self any) *Cap {
	o := &object{table: t, self: self}
	o.refs.Store(1)
	return newCap(o)
}

// Local returns the value behind a capability that this process hosts, also if it came back over a
// connection. It reports false for every other capability, and for a promise that has not resolved.
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

// Settle waits until c is no promise any more, or a failed one. [Local] works only then. A peer may never
// resolve its promise, so use a ctx that ends.
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

// Err returns the error that every call on c fails with, since c is null, was released, or is a promise that has failed. It returns
// nil for every other capability, and for a promise that has not resolved.
func (c *Cap) Err() *Exception {
	t := c.use()
	defer t.release()
	if b, ok := settle(t).(broken); ok {
		return b.err
	}
	return nil
}

// Pending reports whether calls made on c wait here because it is not known yet where c leads. This process
// holds their parameters meanwhile.
func (c *Cap) Pending() bool {
	t := c.use()
	defer t.release()
	return pending(t)
}

// pending is Pending for the result of c.use.
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

// settle follows promises as far as they have resolved for good. The result is valid only as long as the
// caller's reference to t.
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
