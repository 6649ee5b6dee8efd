package authority

import (
	"time"

	"capd/vfs"
)

// Summary is what all grants come to.
type Summary struct {
	Since  time.Time // when the host began
	Grants int       // that are not revoked, shared ones among them
	Used   vfs.Usage // by guests
}

// Summary returns what all grants come to now.
func (h *Host) Summary() Summary {
	h.mu.Lock()
	defer h.mu.Unlock()
	s := Summary{Since: h.since}
	for _, g := range h.grants {
		if !g.dead() {
			s.Grants++
		}
		if g.root != g { // its root accounts for it
			continue
		}
		u := g.ledger.Usage()
		s.Used.Bytes += u.Bytes
		s.Used.Nodes += u.Nodes
		s.Used.Open += u.Open
		s.Used.Streams += u.Streams
	}
	return s
}
