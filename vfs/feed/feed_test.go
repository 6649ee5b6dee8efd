package feed

import (
	"context"
	"encoding/binary"
	"slices"
	"strings"
	"testing"
	"time"

	"capd/vfs"
	"capd/vfs/membrane"
	"capd/vfs/vfstest"
	"capd/vfs/vfstest/check"
)

// slowWatch is a directory that is watched when go on is closed.
type slowWatch struct {
	vfs.Dir
	asked, goOn, stopped chan struct{}
}

func (s slowWatch) Watch(context.Context, vfs.Watch) (vfs.Watching, error) {
	close(s.asked)
	<-s.goOn
	return slowWatching{s}, nil
}

type slowWatching struct{ slowWatch }

func (slowWatching) Sync(context.Context) error { return nil }

func (s slowWatching) Stop() { close(s.stopped) }

// TestCloseWhileBeginning: what begins to be watched while the feed closes is not watched after that.
func TestCloseWhileBeginning(t *testing.T) {
	_, store := check.Store(t, vfstest.Tree{})
	s := slowWatch{store, make(chan struct{}), make(chan struct{}), make(chan struct{})}
	f := New(s, Options{})
	failed := make(chan error, 1)
	go func() {
		_, err := f.enter(context.Background(), "", nil)
		failed <- err
	}()
	<-s.asked
	f.Close()
	close(s.goOn)
	check.Is(t, "what began", <-failed, vfs.Stale)
	select {
	case <-s.stopped:
	case <-time.After(10 * time.Second):
		t.Fatal("it is watched for ever")
	}
	if n := f.asked.Load(); n != 0 {
		t.Errorf("%d interests are left", n)
	}
}

// TestCursors: a cursor is of use for its directory alone, and its bytes say nothing.
func TestCursors(t *testing.T) {
	f, g := New(nil, Options{}), New(nil, Options{})
	a, b := f.cursor(7, "p"), f.cursor(7, "p")
	if slices.Equal(a, b) {
		t.Error("two cursors are equal, and so tell that nothing has happened between")
	}
	for i := range len(a) - 7 {
		if binary.BigEndian.Uint64(a[i:]) == 7 {
			t.Errorf("the number is in the cursor, at %d", i)
		}
	}
	if seq, ok, err := f.read(a, "p"); seq != 7 || !ok || err != nil {
		t.Errorf("read as %d, %v, %v", seq, ok, err)
	}
	for what, c := range map[string]struct {
		f    *Feed
		path string
	}{"another directory": {f, "q"}, "one above": {f, ""}, "another host": {g, "p"}} {
		if _, ok, err := c.f.read(a, c.path); ok || err != nil {
			t.Errorf("%s reads it: %v, %v", what, ok, err)
		}
	}
	for i := range a {
		forged := slices.Clone(a)
		forged[i] ^= 1
		if _, ok, err := f.read(forged, "p"); ok || err != nil {
			t.Errorf("with another byte %d: %v, %v", i, ok, err)
		}
	}
	_, _, err := f.read(a[1:], "p")
	check.Is(t, "a short cursor", err, vfs.Invalid)
}

// TestWaitersWoken: a change wakes exactly those whom it may concern.
func TestWaitersWoken(t *testing.T) {
	paths := []string{"", "a", "a/b", "a/b/c", "a-b", "a.b/c", "ab", "b"}
	for _, c := range []struct {
		path, want string
		below      bool
	}{
		{"a/b", " a a/b", false}, {"a/b", " a a/b a/b/c", true}, {"a", " a a/b a/b/c", true}, {"", " a a-b a.b/c a/b a/b/c ab b", true}, {"", "", false},
		{"a/x", " a", true}, {"x", "", true}, {"b/y/z", " b", false},
	} {
		var ws waiters
		var all []*waiter
		for _, p := range paths {
			w := &waiter{path: p, ch: make(chan struct{}, 1)}
			ws.add(w)
			all = append(all, w)
		}
		ws.wake(c.path, c.below)
		var got []string
		for _, w := range all {
			if len(w.ch) > 0 {
				got = append(got, w.path)
			}
			ws.remove(w)
		}
		slices.Sort(got)
		if text := strings.Join(got, " "); text != c.want {
			t.Errorf("%q, below %v, wakes %q, want %q", c.path, c.below, text, c.want)
		}
		if ws.byPath.Len() != 0 {
			t.Error("some are left")
		}
	}
}

// TestHeldIsBounded: what a store tells of a file whose change hangs is not kept without end.
func TestHeldIsBounded(t *testing.T) {
	_, store := check.Store(t, vfstest.Tree{"f": {Data: "f"}})
	f := New(store, Options{})
	defer f.Close()
	in, err := f.enter(t.Context(), "", nil)
	check.OK(t, err)
	defer f.leave(in)
	made := f.Making(membrane.Op{Kind: membrane.OpReplace, Path: "f"})
	for range 3 * maxRecent {
		in.tell([]vfs.Notice{{Path: "f", Event: vfs.Changed}})
	}
	f.mu.Lock()
	if n := len(f.recent.held); n > maxRecent {
		t.Errorf("%d notices are held", n)
	}
	f.mu.Unlock()
	made(vfs.Effect{}, nil)
}
