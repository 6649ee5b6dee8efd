package membrane

import (
	"context"

	"capd/meter"
	"capd/vfs"
)

// CallBytes counts what one call keeps, in the meter of the call's turn. It is used by one goroutine at a time.
type CallBytes struct {
	of          *meter.Meter // nil if nobody counts it
	as          meter.Kind
	used, taken int64
}

// callStep is how many bytes are taken at once: enough for a small call.
const callStep = 4 << 10

// CallBytesOf returns the CallBytes of a call that keeps nothing in memory yet, which counts as bytes of an open call.
// [CallBytes.End] must follow.
func CallBytesOf(ctx context.Context) *CallBytes {
	return &CallBytes{of: meter.Of(ctx), as: meter.CallBytes}
}

// SpooledOf is CallBytesOf for what is kept in temporary files. It counts as staged.
func SpooledOf(ctx context.Context) *CallBytes {
	return &CallBytes{of: meter.Of(ctx), as: meter.StagedBytes}
}

// Take counts n bytes more, or answers limit.
func (c *CallBytes) Take(n int64) error {
	c.used += n
	if c.of == nil || c.used <= c.taken {
		return nil
	}
	more := max(c.used-c.taken, callStep)
	if err := c.of.Take(c.as, more); err != nil {
		return vfs.Errorf(vfs.CodeOf(err), "%v", err)
	}
	c.taken += more
	return nil
}

// End gives all of it back.
func (c *CallBytes) End() {
	if c.of != nil {
		c.of.Give(c.as, c.taken)
	}
}
