package authority

import (
	"time"
)

// Summary is what all grants come to.
type Summary struct {
	Since  time.Time // when the host began
	Grants int       // that are not revoked, shared ones among them
}

// Summary returns what all grants come to now.
func (h *Host) Summary() Summary {
	s := Summary{Since: h.since}
	h.each(0, func(g *grant) bool {
		if !g.dead() {
			s.Grants++
		}
		return true
	})
	return s
}
