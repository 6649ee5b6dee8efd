package authority

import (
	"time"
)

// Summary describes all grants together.
type Summary struct {
	Since  time.Time // when the host was made
	Grants int       // grants that have not ended, including shares
}

// Summary returns the present summary.
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
