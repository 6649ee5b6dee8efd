package scope_test

import (
	"slices"
	"testing"

	"capd/cap/scope"
)

// owner keeps one listing.
type owner struct{ kept *func() }

func newOwner() owner { return owner{new(func())} }

// Keep keeps one listing.
func (o owner) Keep(drop func()) (forget, dropOldest func()) {
	dropOldest = *o.kept
	if dropOldest == nil {
		dropOldest = func() {}
	}
	*o.kept = drop
	return func() { *o.kept = nil }, dropOldest
}

// What makes room, for a connection's or its owner's newer listings, counts for
// neither any more.
func TestKeep(t *testing.T) {
	o := newOwner()
	first, second := scope.New().Of(o), scope.New().Of(o)
	var dropped []string
	keep := func(s *scope.Scope, name string) *scope.Listing {
		l, dropOldest := s.Keep(func() { dropped = append(dropped, name) })
		dropOldest()
		return l
	}
	is := func(names ...string) {
		t.Helper()
		if !slices.Equal(dropped, names) {
			t.Errorf("%q were dropped, want %q", dropped, names)
		}
		dropped = nil
	}
	a := keep(first, "a")
	is()
	b := keep(second, "b")
	is("a")
	if first.Forget(a) || !second.Forget(b) || second.Forget(b) || *o.kept != nil {
		t.Error("a listing that was dropped is there, or one that was kept is not, or is still")
	}
	keep(second, "c")
	is()
	nobodys := scope.New().Of(nil)
	for _, name := range []string{"d", "e", "f", "g", "h"} {
		keep(nobodys, name)
	}
	is("d")
}
