package authority

import (
	"context"
	"time"

	"capd/database"
)

// Summary describes all grants together.
type Summary struct {
	Since    time.Time // when the host was made
	Grants   int       // grants that have not ended, including shares
	Resident int       // grants and shares that are in memory
}

// Summary returns the present summary.
func (h *Host) Summary() (Summary, error) {
	h.mu.Lock()
	s := Summary{Since: h.since, Resident: h.residents.byID.Len()}
	h.mu.Unlock()
	err := h.db.Read(context.Background(), func(rows *database.Rows) error {
		return rows.Row("SELECT count(*) FROM grants WHERE ended IS NULL").Scan(&s.Grants)
	})
	return s, err
}
