package authority

import (
	"context"
	"strconv"

	"capd/database"
	"capd/meter"
	"capd/operator"
	"capd/vfs"
)

// Metered is a grant and the meter in which its use counts.
type Metered struct {
	operator.Grant
	Meter *meter.Meter
}

// Metered returns at most max resident grants, oldest first; others hold nothing. It begins after the grant with the id after, as
// Grants does. A revoked grant is included while something that it held is left.
func (h *Host) Metered(after string, max int) (out []Metered, err error) {
	last, err := h.after(after)
	if err != nil {
		return nil, err
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.residents.byID.Ascend(last+1, func(_ int64, g *grant) bool {
		out = append(out, Metered{h.now(g), g.meter})
		return len(out) < max
	})
	return out, nil
}

// page is how many rows one read takes.
const page = 4096

// Grants returns at most max grants, oldest first. It begins after the grant with the id
// after, which may be forgotten by now, or with the first for "". It answers invalid if
// after is no id, and notFound if no grant ever had that id.
func (h *Host) Grants(after string, max int) (out []operator.Grant, err error) {
	last, err := h.after(after)
	if err != nil {
		return nil, err
	}
	for len(out) < max {
		n := min(page, max-len(out))
		some, at, err := h.listed(last, n)
		if err != nil {
			return nil, err
		}
		if out = append(out, some...); len(some) < n {
			break
		}
		last = at
	}
	return out, nil
}

// listed returns at most max grants after the one with the id last, and the id of the last of them.
func (h *Host) listed(last int64, max int) (out []operator.Grant, at int64, err error) {
	err = h.db.Read(context.Background(), func(rows *database.Rows) error {
		all, err := scanAll(rows, columns+"WHERE id>? ORDER BY id LIMIT ?", last, max)
		if err != nil {
			return err
		}
		out = nil
		for _, r := range all {
			h.withdrawn.mark(r)
			out, at = append(out, r.described()), r.id
		}
		if err := lockedIn(rows, last, at, out); err != nil {
			return err
		}
		h.withdrawn.lock(all, out)
		return nil
	})
	return out, at, err
}

// lockedIn marks those of some that are locked, or shared from one that is. Their ids are above last and at most at.
func lockedIn(rows *database.Rows, last, at int64, some []operator.Grant) error {
	locked, err := ids(rows, `WITH RECURSIVE locked(id) AS (
		SELECT grant_id FROM gates WHERE path=x'' AND refuses&2
		UNION SELECT g.id FROM grants g JOIN locked ON g.parent=locked.id) SELECT id FROM locked WHERE id>? AND id<=?`, last, at)
	if err != nil {
		return err
	}
	is := map[string]bool{}
	for _, id := range locked {
		is[idText(id)] = true
	}
	for i := range some {
		if g := &some[i]; g.State == operator.Active && is[g.ID] {
			g.State = operator.Locked
		}
	}
	return nil
}

// after returns the number of the grant with that id, or 0 for "".
func (h *Host) after(id string) (n int64, err error) {
	if id == "" {
		return 0, nil
	}
	if n, err = numberOf(id); err != nil {
		return 0, err
	}
	var last int64
	err = h.db.Read(context.Background(), func(rows *database.Rows) error {
		return rows.Row("SELECT COALESCE((SELECT seq FROM sqlite_sequence WHERE name='grants'), 0)").Scan(&last)
	})
	if err == nil && n > last {
		err = errNoGrant
	}
	return n, err
}

// numberOf returns the number in an id. It answers invalid if id is no id.
func numberOf(id string) (int64, error) {
	if grantID.MatchString(id) {
		if n, err := strconv.ParseInt(id[1:], 10, 64); err == nil {
			return n, nil
		}
	}
	return 0, vfs.Errorf(vfs.Invalid, "a grant's id is g and a number")
}
