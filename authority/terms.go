package authority

import (
	"context"
	"maps"
	"time"

	"capd/database"
	"capd/meter"
	"capd/operator"
	"capd/record"
)

// setTerms makes the rights, limits, times and uses of the live grant r those of t, for good and at once. Times count from when
// the grant was made, and uses too. What guests have open goes on, unless the rights change: then it answers stale, and
// the locator leads to the same with the other rights.
func (h *Host) setTerms(r *row, t operator.Terms) error {
	next := *r
	next.rights, next.limits, next.expires, next.uses = t.Rights, t.Limits, 0, anyUses
	if err := h.limitTime(&next, t); err != nil {
		return err
	}
	h.settings.Lock()
	err := h.keepTerms(r, &next)
	g := h.resident(r.id)
	if err == nil && g != nil {
		h.renew(g, &next)
	}
	h.settings.Unlock()
	if next.timed() {
		h.tickOn()
	}
	if err == nil && g != nil && g.rights != next.rights {
		err = h.interrupt(g)
	}
	return err
}

// interrupt ends what guests have open through the root grant g and what was shared from it. Their locators make them
// resident again.
func (h *Host) interrupt(g *grant) error {
	err := g.control.End()
	var all []*grant
	h.mu.Lock()
	h.residents.byID.Scan(func(_ int64, at *grant) bool {
		if at == g || at.top == g.id {
			all = append(all, at)
		}
		return true
	})
	h.mu.Unlock()
	for _, at := range all {
		h.bury(at, h.take(at))
	}
	return err
}

// keepTerms writes the terms of next in place of those of r. The uses of next are those that are given in all, and then those
// that are left.
func (h *Host) keepTerms(r, next *row) error {
	write := h.db.Write
	if next.rights&^r.rights == 0 && next.rights != r.rights { // even if the disk is full
		write = h.db.Urgent
	}
	limits, err := limitsText(next.limits)
	if err != nil {
		return err
	}
	var there terms
	err = h.db.Read(context.Background(), func(rows *database.Rows) (err error) {
		there, err = compare(rows, *next)
		return err
	})
	if err != nil || there.same {
		next.uses = there.left
		return err
	}
	err = write(func(tx *database.Tx) (err error) {
		if there, err = compare(&tx.Rows, *next); err != nil {
			return err
		}
		_, err = tx.Exec("UPDATE grants SET rights=?, limits=?, expires=NULLIF(?, 0), unused=NULLIF(?, 0), uses=NULLIF(?, -1), restored=? WHERE id=?",
			next.rights, limits, next.expires, next.unused, there.left, there.restored, next.id)
		if err != nil || h.record == nil {
			return err
		}
		return h.record.Append(tx, record.Entry{Kind: record.Changed, Grants: []record.Holder{{ID: idText(next.id), Name: next.name}},
			Subject: string(next.subject), Path: record.Path(next.path), Rights: next.rights.String()})
	})
	next.uses = there.left
	return err
}

// terms is how the terms of a row compare with others.
type terms struct {
	same           bool
	left, restored int64 // of the uses that the others have in all: how many are left, and how many were made
}

// compare compares the live row of next with next, whose uses are those that are given in all.
func compare(rows *database.Rows, next row) (t terms, err error) {
	now, err := find(rows, byID, next.id)
	if err == nil {
		err = now.end()
	}
	if err == nil {
		err = rows.Row("SELECT restored FROM grants WHERE id=?", next.id).Scan(&t.restored)
	}
	if err != nil {
		return t, err
	}
	if next.uses != anyUses {
		if now.uses == anyUses { // from now on they are counted
			t.restored = 0
		}
		next.uses = max(next.uses-t.restored, 0)
	}
	t.left = next.uses
	t.same = now.sameTerms(&next)
	return t, nil
}

// sameTerms reports whether r and next have the same terms.
func (r *row) sameTerms(next *row) bool {
	return r.rights == next.rights && r.expires == next.expires && r.unused == next.unused && r.uses == next.uses && maps.Equal(r.limits, next.limits)
}

// renew makes the terms of the resident grant g those of next, without its rights. The caller holds h.settings.
func (h *Host) renew(g *grant, next *row) {
	h.mu.Lock()
	g.expires, g.unused, g.uses = next.expires, next.unused, next.uses
	h.mu.Unlock()
	h.limit(g, next.limits)
	var at time.Time
	if next.expires != 0 {
		at = time.UnixMilli(next.expires)
	}
	g.control.SetExpiry(at)
}

// limit gives g the limits l. Those that l does not have are the host's.
func (h *Host) limit(g *grant, l meter.Limits) {
	all := meter.GrantLimits()
	maps.Copy(all, h.defaults())
	maps.Copy(all, l)
	g.meter.Replace(all)
}

// defaults returns what each root grant may hold, where its own limits do not say. Others are those of [meter.GrantLimits].
func (h *Host) defaults() meter.Limits {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.limits
}

// SetDefaults exchanges what each root grant may hold, where its own limits do not say; see [Options].
func (h *Host) SetDefaults(ctx context.Context, l meter.Limits) error {
	h.settings.Lock()
	defer h.settings.Unlock()
	var all []*grant
	h.mu.Lock()
	h.limits = l
	h.residents.byID.Scan(func(_ int64, g *grant) bool {
		if !g.shared() {
			all = append(all, g)
		}
		return true
	})
	h.mu.Unlock()
	for _, g := range all {
		r, err := h.read(ctx, g.id)
		if r == nil {
			return err
		}
		h.limit(g, r.limits)
	}
	return nil
}
