package membrane

import (
	"context"

	"capd/meter"
	"capd/vfs"
)

// CallBytes counts what one call keeps in memory, in the meter of the call's turn, as bytes of an open call. It is used by one
// goroutine at a time.
type CallBytes struct {
	of          *meter.Meter // nil if nobody counts it
	used, taken int64
}

// callStep is how many bytes are taken at once: enough for a small call.
const callStep = 4 << 10

// CallBytesOf returns the CallBytes of a call that keeps nothing yet. [CallBytes.End] must follow.
func CallBytesOf(ctx context.Context) *CallBytes { return &CallBytes{of: meter.Of(ctx)} }

// Take counts n bytes more, or answers limit.
func (c *CallBytes) Take(n int64) error {
	c.used += n
	if c.of == nil || c.used <= c.taken {
		return nil
	}
	more := max(c.used-c.taken, callStep)
	if err := c.of.Take(meter.CallBytes, more); err != nil {
		return vfs.Errorf(vfs.CodeOf(err), "%v", err)
	}
	c.taken += more
	return nil
}

// End gives all of it back.
func (c *CallBytes) End() {
	if c.of != nil {
		c.of.Give(meter.CallBytes, c.taken)
	}
}
