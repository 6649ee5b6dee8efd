package scope_test

import (
	"context"
	"io"
	"slices"
	"testing"
	"time"

	"capd/cap/scope"
	"capd/vfs"
)

// full takes every turn of one kind and returns what gives one back.
func full(t *testing.T, take func(context.Context) (func(), error)) (done func()) {
	t.Helper()
	for range scope.MaxHeavy {
		var err error
		if done, err = take(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if free(t, take) {
		t.Fatal("there is no bound")
	}
	return done
}

// free reports whether a turn is to be had.
func free(t *testing.T, take func(context.Context) (func(), error)) bool {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	done, err := take(ctx)
	if err != nil {
		return false
	}
	done()
	return true
}

func TestHeavy(t *testing.T) {
	s := scope.New()
	done := full(t, s.Change)
	if !free(t, s.Look) {
		t.Error("a look waits for changes")
	}
	if give, err := s.ChangeIf(t.Context(), vfs.If{Absent: true}); err != nil {
		t.Error("a change that needs no version waits")
	} else {
		give()
	}
	if free(t, func(ctx context.Context) (func(), error) { return s.ChangeIf(ctx, vfs.If{Is: vfs.Version{1}}) }) {
		t.Error("a change that needs a version does not wait")
	}
	done()
	done()
	if !free(t, s.Change) {
		t.Error("a turn that was given back is not free")
	}
	full(t, s.Look)
}

// owner bounds what all its connections do at once, to one call of a kind.
type owner struct {
	looks, changes chan struct{}
	kept           *func()
}

func newOwner() owner { return owner{make(chan struct{}, 1), make(chan struct{}, 1), new(func())} }

func (o owner) Look(ctx context.Context) (func(), error)   { return take(ctx, o.looks) }
func (o owner) Change(ctx context.Context) (func(), error) { return take(ctx, o.changes) }

func take(ctx context.Context, turns chan struct{}) (func(), error) {
	select {
	case turns <- struct{}{}:
		return func() { <-turns }, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// An owner's turns are shared by all connections that hold what it owns, and by
// no others.
func TestHeavyOfOneOwner(t *testing.T) {
	o, other := newOwner(), newOwner()
	first, second := scope.New(), scope.New()
	done, err := first.Of(o).Look(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if free(t, second.Of(o).Look) {
		t.Error("another connection has a turn of the same owner")
	}
	for what, take := range map[string]func(context.Context) (func(), error){
		"a change": second.Of(o).Change, "another owner's look": second.Of(other).Look,
		"a look at what nobody owns": second.Of(nil).Look, "a second look of the connection's": first.Of(other).Look,
	} {
		if !free(t, take) {
			t.Errorf("%s waits", what)
		}
	}
	done()
	full := []func(){}
	for range scope.MaxHeavy { // what waited in vain has given its turns back
		give, err := second.Look(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		full = append(full, give)
	}
	for _, give := range full {
		give()
	}
	if !free(t, second.Of(o).Look) {
		t.Error("a turn that was given back is not free")
	}
}

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

// A change that waits for its content keeps nobody waiting.
func TestChangeFrom(t *testing.T) {
	s := scope.New()
	r, w := io.Pipe()
	ended := make(chan error)
	staged, release := make(chan struct{}), make(chan struct{})
	for range scope.MaxHeavy {
		go func() {
			_, err := s.ChangeFrom(t.Context(), vfs.If{Is: vfs.Version{1}}, r, func(r io.Reader) (vfs.Version, error) {
				_, err := io.Copy(io.Discard, r)
				staged <- struct{}{}
				<-release
				return vfs.Version{}, err
			})
			ended <- err
		}()
	}
	time.Sleep(10 * time.Millisecond)
	if !free(t, s.Change) {
		t.Error("no turn while the content is awaited")
	}
	w.Close()
	for range scope.MaxHeavy {
		<-staged
	}
	if free(t, s.Change) {
		t.Error("no turn once the content is there")
	}
	for range scope.MaxHeavy {
		release <- struct{}{}
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}
	full(t, s.Change)
}
