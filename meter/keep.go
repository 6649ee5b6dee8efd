package meter

import (
	"slices"
	"sync"
)

// A Kept is something held that can be opened again, so that it may be dropped to make room; see
// [Meter.Keep].
type Kept struct {
	m    *Meter
	kind Kind
	drop func()
}

// keeps is what one meter keeps, the oldest first.
type keeps struct {
	mu   sync.Mutex
	kept []*Kept
}

// Keep takes one of k for something that can be opened again. If m has no more of k, the oldest
// that m itself keeps makes room. The caller must run dropOldest, which calls the oldest's drop,
// and must hold no lock that drop needs. If m keeps nothing of k either, kept is nil. A nil m has
// no limits.
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
		dropOldest = m.keeps.kept[i].drop // the new one has its one of k now
		m.keeps.kept = slices.Delete(m.keeps.kept, i, i+1)
	}
	m.keeps.kept = append(m.keeps.kept, kept)
	return kept, dropOldest
}

// Forget gives back what Keep took, and reports whether it was still kept. Once Forget has
// returned, drop will not be called.
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
