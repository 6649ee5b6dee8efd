package host

import (
	"time"

	"capd/cap/wire"
	"capd/vfs"
)

// betweenEnds is the time between the ends of two connections whose grants were all taken back. If
// thousands ended at once, each with its goroutines, nobody else would get a processor for a tenth
// of a second.
const betweenEnds = 60 * time.Microsecond

// mostAfterlife is the longest that an end is put off, which is enough for as many connections as
// there may be. Without it a guest could delay the ends of others: it would take shares back and
// make them again, each restored on many connections.
const mostAfterlife = 750 * time.Millisecond

// nextEnd returns after what time the next connection may be ended. s.mu is held.
func (s *Server) nextEnd() time.Duration {
	now := time.Now()
	after := min(max(Afterlife, s.lastEnd.Add(betweenEnds).Sub(now)), mostAfterlife)
	s.lastEnd = now.Add(after)
	return after
}

// end ends the connection, unless it holds something again. The peer is told why, in the words of a
// call's error.
func (t *seat) end(why error) {
	t.s.mu.Lock()
	over := !t.ended && len(t.live) == 0 && len(t.asks) == 0
	t.s.mu.Unlock()
	if over {
		t.conn.Abort(wire.Encode(vfs.At("", why)).Reason)
	}
}
