package memory

import "capd/meter"

// holdings are the bytes that a store holds beside its tree, each grant's for
// itself: what is staged, and what readers hold open that is in the tree no more.
// Under Store.mu.
//
// All together may stage twice what the tree may hold, and a grant as much as the
// others leave free of that: alone as much as the tree may hold, so that one file
// can be replaced by one as large, and never all. A share may stage as much
// as its grant has left of what the tree may hold. The host's own calls, which
// have no meter's turn, count as one grant.
type holdings struct {
	limit  int64 // what the tree may hold
	staged int64 // in all
	of     map[*meter.Meter]holding
}

// holding is what one grant or share holds; a grant's has that of its shares in it.
type holding struct{ staged, old int64 }

// stage counts n bytes more, unless they are too many.
func (h *holdings) stage(who *meter.Meter, n int64) bool {
	grant := grantOf(who)
	if h.of[grant].staged+n > 2*h.limit-(h.staged+n) {
		return false
	}
	if who != grant && h.of[who].staged+n > h.limit-(h.of[grant].staged+n) {
		return false
	}
	h.count(who, holding{staged: n})
	h.staged += n
	return true
}

func (h *holdings) unstage(who *meter.Meter, n int64) {
	h.count(who, holding{staged: -n})
	h.staged -= n
}

// full reports whether the grant of who holds open more old content than the tree may
// hold. Until it closes some it may open and write nothing.
func (h *holdings) full(who *meter.Meter) bool { return h.of[grantOf(who)].old > h.limit }

func (h *holdings) count(who *meter.Meter, n holding) {
	if h.of == nil {
		h.of = map[*meter.Meter]holding{}
	}
	grant := grantOf(who)
	for _, m := range []*meter.Meter{grant, who} {
		now := h.of[m]
		now.staged += n.staged
		now.old += n.old
		h.of[m] = now
		if now == (holding{}) {
			delete(h.of, m)
		}
		if who == grant {
			return
		}
	}
}

func grantOf(who *meter.Meter) *meter.Meter {
	if who == nil {
		return nil
	}
	return who.Grant()
}

// detach accounts for b, which has left the tree: it is the first reader's, and when
// that closes it, the next one's. s.mu is held.
func (s *Store) detach(b *blob) {
	if len(b.readers) > 0 && !b.detached {
		b.detached = true
		s.held.count(b.readers[0].who, holding{old: b.size})
	}
}

// closed accounts for a content that is read no more. s.mu is held.
func (s *Store) closed(c *content) {
	b := c.blob
	if b.detached {
		s.held.count(b.readers[0].who, holding{old: -b.size})
	}
	b.readers = without(b.readers, c)
	if b.detached = b.detached && len(b.readers) > 0; b.detached {
		s.held.count(b.readers[0].who, holding{old: b.size})
	}
}

// without is all but one, in another order: the last takes its place.
func without(all []*content, one *content) []*content {
	for i, c := range all {
		if c == one {
			last := len(all) - 1
			all[i], all[last] = all[last], nil
			return all[:last]
		}
	}
	return all
}
