package meter

import (
	"slices"
	"sync"
)

// A Kept is something held that can be had again, and makes room for the next; see
// [Meter.Keep].
type Kept struct {
	m    *Meter
	kind Kind
	drop func()
}

// keeps are those of one meter, the oldest first.
type keeps struct {
	mu   sync.Mutex
	kept []*Kept
}

// Keep takes one of k for something that can be had again. Where there is no more, the oldest
// of what m itself keeps makes room: the caller runs dropOldest, which calls its drop, holding no
// lock that drop needs. Where m keeps nothing either, Keep answers nil. A nil m has no limits.
func (m *Meter) Keep(k Kind, drop func()) (kept *Kept, dropOldest func()) {
	kept = &Kept{m, k, drop}
	if m == nil {
		return kept, func() {}
	}
	full := m.Take(k, 1) != nil
	m.keeps.mu.Lock()
	defer m.keeps.mu.Unlock()
	dropOldest = func() {}
	if full {
		i := slices.IndexFunc(m.keeps.kept, func(o *Kept) bool { return o.kind == k })
		if i < 0 {
			return nil, dropOldest
		}
		dropOldest = m.keeps.kept[i].drop // whose one of k it has now
		m.keeps.kept = slices.Delete(m.keeps.kept, i, i+1)
	}
	m.keeps.kept = append(m.keeps.kept, kept)
	return kept, dropOldest
}

// Forget gives back what Keep took, and reports whether that was kept still: afterwards its
// drop is not called any more.
func (k *Kept) Forget() bool {
	if k.m == nil {
		return true
	}
	keeps := &k.m.keeps
	keeps.mu.Lock()
	i := slices.Index(keeps.kept, k)
	if i >= 0 {
		keeps.kept = slices.Delete(keeps.kept, i, i+1)
	}
	keeps.mu.Unlock()
	if i >= 0 {
		k.m.Give(k.kind, 1)
	}
	return i >= 0
}
