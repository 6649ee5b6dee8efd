package memory

import (
	"slices"

	"capd/meter"
)

// holdings counts, for each grant, the bytes that a store holds beside its tree: staged
// content, and content that has left the tree but is still open. Guarded by Store.mu.
//
// All grants together may stage twice what the tree may hold. One grant may stage as
// much as the others leave free of that. A grant that is alone may stage as much as the
// tree may hold, enough to replace one file by another as large, but never everything.
// A share may stage as much as its grant has left of what the tree may hold. Calls of
// the host itself, which have no meter's turn, count as one grant.
type holdings struct {
	limit  int64 // bytes that the tree may hold
	staged int64 // total
	of     map[*meter.Meter]holding
}

// holding is what one grant or share holds. A grant's includes its shares'.
type holding struct{ staged, old int64 }

// stage counts n more bytes, or reports false if that is too many.
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

// full reports whether who's grant has more old content open than the tree may hold.
// Until it closes some, it can open and write nothing.
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

// detach counts b, which has left the tree, for its first reader. When that one closes
// it, it counts for the next. Needs s.mu.
func (s *Store) detach(b *blob) {
	if len(b.readers) > 0 && !b.detached {
		b.detached = true
		s.held.count(b.readers[0].who, holding{old: b.size})
	}
}

// closed uncounts a content that was closed. Needs s.mu.
func (s *Store) closed(r *reader) {
	b := r.blob
	if b.detached {
		s.held.count(b.readers[0].who, holding{old: -b.size})
	}
	b.readers = slices.DeleteFunc(b.readers, func(other *reader) bool { return other == r })
	if b.detached = b.detached && len(b.readers) > 0; b.detached {
		s.held.count(b.readers[0].who, holding{old: b.size})
	}
}
