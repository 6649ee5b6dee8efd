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
	s := Summary{Since: h.since}
	h.each(0, func(g *grant) bool {
		if !g.dead() {
			s.Grants++
		}
		if !g.shared() { // its root accounts for it
			u := g.ledger.Usage()
			s.Used.Bytes += u.Bytes
			s.Used.Nodes += u.Nodes
			s.Used.Open += u.Open
			s.Used.Streams += u.Streams
		}
		return true
	})
	return s
}
