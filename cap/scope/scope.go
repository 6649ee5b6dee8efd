// Package scope bounds what the capabilities of one connection hold beside
// themselves.
package scope

import (
	"slices"
	"sync"

	"capd/vfs"
)

// Bounds of one connection.
const (
	MaxWriters  = 256 // Writers, until they have ended and were released
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
}

// New returns the scope of a new connection.
func New() *Scope {
	return &Scope{held: &held{}}
}

// Turns is what the owner of nodes may have (vfs.OwnerOf): a bound on the listings
// that wait on all of them.
type Turns interface {
	// Keep counts one listing more, until forget. It calls nothing: when there are
	// too many, dropOldest is the drop of the oldest, which counts no more.
	Keep(drop func()) (forget, dropOldest func())
}

// Of returns the scope, on the same connection, of what owner owns.
func (s *Scope) Of(owner any) *Scope {
	t, _ := owner.(Turns)
	return &Scope{s.held, t}
}

// Writer takes a place for a Writer; done gives it back. It answers
// limit.
func (s *Scope) Writer() (done func(), err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.writers >= MaxWriters {
		return nil, vfs.Errorf(vfs.Limit, "%d Writers are held on this connection already; commit some, and release those that have ended", s.writers)
	}
	s.writers++
	return sync.OnceFunc(func() {
		s.mu.Lock()
		s.writers--
		s.mu.Unlock()
	}), nil
}

// Listing is a listing that may go on.
type Listing struct {
	drop   func()
	forget func() // the owner's, if it has one
}

// Keep keeps a listing for its next page. When there are too many, of the
// connection's or of the owner's, the oldest make room, whose next pages then list
// anew: the caller runs dropOldest, holding no lock.
func (s *Scope) Keep(drop func()) (l *Listing, dropOldest func()) {
	l = &Listing{drop: drop}
	s.mu.Lock()
	s.listings = append(s.listings, l)
	s.mu.Unlock()
	if s.turns == nil {
		return l, s.trim
	}
	forget, dropOwners := s.turns.Keep(func() { s.drop(l) })
	s.mu.Lock()
	kept := slices.Contains(s.listings, l)
	l.forget = forget
	s.mu.Unlock()
	if !kept { // it made room already
		forget()
	}
	return l, func() { s.trim(); dropOwners() }
}

// trim drops the oldest listings beyond MaxListings.
func (s *Scope) trim() {
	for {
		s.mu.Lock()
		if len(s.listings) <= MaxListings {
			s.mu.Unlock()
			return
		}
		oldest := s.listings[0]
		s.mu.Unlock()
		s.drop(oldest)
	}
}

// drop drops a listing, if it is kept still.
func (s *Scope) drop(l *Listing) {
	if s.Forget(l) {
		l.drop()
	}
}

// Forget takes back a listing and reports whether it was kept still.
func (s *Scope) Forget(l *Listing) bool {
	s.mu.Lock()
	i := slices.Index(s.listings, l)
	if i < 0 {
		s.mu.Unlock()
		return false
	}
	s.listings = slices.Delete(s.listings, i, i+1)
	forget := l.forget
	s.mu.Unlock()
	if forget != nil {
		forget()
	}
	return true
}
