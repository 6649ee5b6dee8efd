package vat

import (
	"context"
	"sync"
)

// A window bounds the calls of `-> stream` methods that one reference has in flight, by their bytes.
type window struct {
	mu    sync.Mutex
	bytes int64         // in flight
	calls int           // in flight
	err   *Exception    // the first failure, which every later call meets
	less  chan struct{} // closed when one comes back; made when somebody waits
}

// stream takes size bytes of c's window for the call a, waiting for room, and keeps the call alive until it is
// answered even if its Answer is released.
func (c *Cap) stream(ctx context.Context, a *answer, size int64) error {
	if c == nil {
		return errNull
	}
	w := c.window.Load()
	if w == nil {
		w = new(window)
		if !c.window.CompareAndSwap(nil, w) {
			w = c.window.Load()
		}
	}
	limit := Limits{}.withDefaults().StreamBytes
	t := c.use()
	if conn := via(t); conn != nil {
		limit = conn.limits.StreamBytes
		conn.outbox.waitStream(ctx.Done())
	}
	t.release()
	if err := w.wait(ctx, func() bool { return w.calls == 0 || w.bytes+size <= limit }, func() {
		w.bytes += size
		w.calls++
	}); err != nil {
		return err
	}
	a.use()
	a.whenDone(func() {
		_, exc := a.failure()
		w.mu.Lock()
		w.bytes -= size
		w.calls--
		if w.err == nil {
			w.err = exc
		}
		if w.less != nil {
			close(w.less)
			w.less = nil
		}
		w.mu.Unlock()
		a.drop()
	})
	return nil
}

// wait waits until ready, and then does then. It fails with the stream's first failure.
func (w *window) wait(ctx context.Context, ready func() bool, then func()) error {
	for {
		w.mu.Lock()
		if w.err != nil {
			w.mu.Unlock()
			return w.err
		}
		if ready() {
			then()
			w.mu.Unlock()
			return nil
		}
		if w.less == nil {
			w.less = make(chan struct{})
		}
		less := w.less
		w.mu.Unlock()
		select {
		case <-less:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// Drain waits until every streaming call made on this reference was answered, and returns the first failure.
func (c *Cap) Drain(ctx context.Context) error {
	if c == nil {
		return errNull
	}
	w := c.window.Load()
	if w == nil {
		return nil
	}
	return w.wait(ctx, func() bool { return w.calls == 0 }, func() {})
}
