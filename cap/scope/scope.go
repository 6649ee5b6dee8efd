// Package scope bounds what the capabilities of one connection hold beside
// themselves.
package scope

import (
	"sync"

	"capd/vfs"
)

// Bounds of one connection.
const (
	MaxWriters  = 256 // whole-file writes under way
	MaxListings = 4   // listings that wait for their next page
)

// Scope is what the capabilities of one connection share, and what bounds them
// beyond it.
type Scope struct {
	*held
	turns Turns // nil: only the connection's
}

type held struct {
	mu       sync.Mutex
	writers  int
	listings []*Listing

	looks, changes chan struct{} // the turns that are taken
}

// New returns the scope of a new connection.
func New() *Scope {
	return &Scope{held: &held{looks: make(chan struct{}, MaxHeavy), changes: make(chan struct{}, MaxHeavy)}}
}

// Writer takes a place for a whole-file write; done gives it back. It answers
// limit.
func (s *Scope) Writer() (done func(), err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.writers >= MaxWriters {
		return nil, vfs.Errorf(vfs.Limit, "%d writes are under way on this connection already; commit or drop some", s.writers)
	}
	s.writers++
	return sync.OnceFunc(func() {
		s.mu.Lock()
		s.writers--
		s.mu.Unlock()
	}), nil
}

// Listing is a listing that may go on.
type Listing struct{ drop func() }

// Keep keeps a listing for its next page. When there are too many it takes back
// the oldest, whose next page then lists anew, and returns its drop, which the
// caller runs holding no lock.
func (s *Scope) Keep(drop func()) (l *Listing, dropOldest func()) {
	l = &Listing{drop}
	s.mu.Lock()
	s.listings = append(s.listings, l)
	var old *Listing
	if len(s.listings) > MaxListings {
		old, s.listings = s.listings[0], s.listings[1:]
	}
	s.mu.Unlock()
	if old == nil {
		return l, func() {}
	}
	return l, old.drop
}

// Forget takes back a listing and reports whether it was kept still.
func (s *Scope) Forget(l *Listing) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i, have := range s.listings {
		if have == l {
			s.listings = append(s.listings[:i], s.listings[i+1:]...)
			return true
		}
	}
	return false
}
