package vfs

import "sync/atomic"

// closer is the state of a reference: open, then closed for good.
type closer struct{ closed atomic.Bool }

var errClosed = Errorf(Stale, "this capability was closed")

func (c *closer) check() error {
	if c.closed.Load() {
		return errClosed
	}
	return nil
}

// close reports whether this call closed it.
func (c *closer) close() bool { return !c.closed.Swap(true) }
