package authority

import (
	"slices"
	"sync"
)

// maxListings is how many listings that wait for their next page are kept for one
// root grant and all that was shared from it, on all its connections: each may
// hold a whole directory.
const maxListings = 4

// listings are those that are kept, the oldest first.
type listings struct {
	mu   sync.Mutex
	kept []*listing
}

type listing struct{ drop func() }

// Keep counts one listing more, until forget. It calls nothing: when there are too
// many, dropOldest is the drop of the oldest, which counts no more.
func (g *grant) Keep(drop func()) (forget, dropOldest func()) {
	return g.root.listings.keep(drop)
}

func (l *listings) keep(drop func()) (forget, dropOldest func()) {
	k := &listing{drop}
	dropOldest = func() {}
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.kept) == maxListings {
		dropOldest = l.kept[0].drop
		l.kept = slices.Delete(l.kept, 0, 1)
	}
	l.kept = append(l.kept, k)
	return func() { l.forget(k) }, dropOldest
}

func (l *listings) forget(k *listing) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if i := slices.Index(l.kept, k); i >= 0 {
		l.kept = slices.Delete(l.kept, i, i+1)
	}
}
