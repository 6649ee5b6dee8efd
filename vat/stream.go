package vat

import (
	"context"
	"sync"

	"capd/meter"
)

// A window bounds the bytes of the calls of `-> stream` methods that one reference has in flight.
type window struct {
	mu    sync.Mutex
	bytes int64      // in flight
	calls int        // in flight
	err   *Exception // the first failure; every later call fails with it
	less  signal     // a call has ended
}

// minStreamed is what a call counts in the window at least, so that many small calls stay below Limits.Calls.
const minStreamed = 2 << 10

// pendingStream is the window while calls wait here because it is not known where they lead.
const pendingStream = 64 << 10

// stream waits for size bytes of c's window for the call a. It keeps the call running until it is answered,
// even if the Answer is released.
func (c *Cap) stream(ctx context.Context, a *answer, size int64) error {
	if c == nil {
		return ErrNull
	}
	size = max(size, minStreamed)
	w := c.streamWindow()
	limit := Limits{}.withDefaults().StreamBytes
	t := c.use()
	if conn := via(t); conn != nil {
		conn.reader.attend()
		limit = conn.limits.StreamBytes
		if err := conn.outbox.waitStream(ctx); ofMeter(err) != nil { // other errors show in the window or in the call
			t.release()
			return err
		}
	} else if pending(t) {
		limit = pendingStream
	}
	t.release()
	if err := w.wait(ctx, func() (ready bool, err error) {
		if ready = w.err == nil && (w.calls == 0 || w.bytes+size <= limit); ready {
			w.bytes += size
			w.calls++
		}
		return ready || w.err != nil, w.failure()
	}); err != nil {
		return err
	}
	a.use()
	a.whenDone(func() {
		_, exc := a.failure()
		w.mu.Lock()
		w.bytes -= size
		w.calls--
		w.changed(exc)
		w.mu.Unlock()
		a.drop()
	})
	return nil
}

// streamWindow returns the window of c. The first call makes it.
func (c *Cap) streamWindow() *window {
	if w := c.window.Load(); w != nil {
		return w
	}
	c.window.CompareAndSwap(nil, new(window))
	return c.window.Load()
}

// breakStream records the failure of a streaming call that was not sent: the later calls are not the whole
// stream.
func (c *Cap) breakStream(exc *Exception) {
	if c == nil {
		return
	}
	w := c.streamWindow()
	w.mu.Lock()
	w.changed(exc)
	w.mu.Unlock()
}

// changed records the first failure and wakes those who wait for w. Called with w.mu held.
func (w *window) changed(exc *Exception) {
	if w.err == nil {
		w.err = exc
	}
	w.less.broadcast()
}

// failure returns w.err as an error.
func (w *window) failure() error {
	if w.err == nil {
		return nil
	}
	return w.err
}

// wait waits until ready returns true, and returns its error. It calls ready with w.mu held.
func (w *window) wait(ctx context.Context, ready func() (bool, error)) (err error) {
	t := meter.TurnOf(ctx)
	if t == nil {
		return w.waitFor(ctx, ready)
	}
	waited := false
	late := t.Wait(ctx, func() { waited, err = true, w.waitFor(ctx, ready) })
	if !waited {
		err = late
	}
	return err
}

func (w *window) waitFor(ctx context.Context, ready func() (bool, error)) error {
	for {
		w.mu.Lock()
		if ready, err := ready(); ready {
			w.mu.Unlock()
			return err
		}
		less := w.less.next()
		w.mu.Unlock()
		select {
		case <-less:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// Drain waits until every streaming call on this reference was answered. It returns the first failure.
func (c *Cap) Drain(ctx context.Context) error {
	if c == nil {
		return ErrNull
	}
	w := c.window.Load()
	if w == nil {
		return nil
	}
	t := c.use()
	flushTo(t)
	t.release()
	return w.wait(ctx, func() (bool, error) { return w.calls == 0, w.failure() })
}
