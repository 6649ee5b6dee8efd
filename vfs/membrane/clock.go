package membrane

import (
	"sync/atomic"
	"time"
)

// Clock tells the time by which gates expire: milliseconds since the Unix epoch by the wall
// clock, which goes on while the machine is suspended. It never goes back, even if the wall
// clock does. The zero Clock is ready to use. Safe for concurrent use.
type Clock struct {
	wall func() time.Time // nil: time.Now
	last atomic.Int64     // the greatest time it has told
}

// NewClock returns a Clock that reads the time from wall.
func NewClock(wall func() time.Time) *Clock { return &Clock{wall: wall} }

// Now returns the time, which is never before one that the Clock has told or was told.
func (c *Clock) Now() int64 {
	now := time.Now
	if c.wall != nil {
		now = c.wall
	}
	return c.Advance(now().UnixMilli())
}

// Advance tells the Clock that it is ms at least, and returns what it is then. Use it for the
// time at which an earlier process ended.
func (c *Clock) Advance(ms int64) int64 {
	for {
		last := c.last.Load()
		if ms <= last {
			return last
		}
		if c.last.CompareAndSwap(last, ms) {
			return ms
		}
	}
}
