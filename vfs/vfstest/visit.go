package vfstest

import (
	"context"
	"slices"
	"strings"

	"capd/vfs"
)

// Rules for vfs.Visit.
var visitRules = []rule{
	{"Visit/SameAsReadAt", anyStore, testVisit},
	{"Visit/Below", anyStore, testVisitBelow},
	{"Visit/Stops", anyStore, testVisitStops},
	{"Visit/Refused", anyStore, testVisitRefused},
	{"Visit/Moved", local, testVisitMoved},
}

// visits returns what Visit of names in the directory at dir sees: "NAME CONTENT", or
// "NAME large", or "NAME CODE".
func (w *world) visits(d vfs.Dir, dir, names []string, window int) (seen []string, err error) {
	err = vfs.Visit(w.ctx, d, dir, names, make([]byte, window), func(f vfs.Visited) bool {
		switch {
		case f.Err != nil:
			seen = append(seen, f.Name+" "+string(vfs.CodeOf(f.Err)))
		case f.Large:
			seen = append(seen, f.Name+" large")
		default:
			seen = append(seen, f.Name+" "+string(f.Data))
		}
		return true
	})
	return seen, err
}

func (w *world) sees(what string, d vfs.Dir, dir, names []string, window int, want ...string) {
	w.Helper()
	got, err := w.visits(d, dir, names, window)
	if w.ok(what, err); !slices.Equal(got, want) {
		w.Errorf("%s sees %q, want %q", what, got, want)
	}
}

func testVisit(w *world) {
	long := strings.Repeat("0123456789", 30_000)
	tree := Tree{"a": {Data: "first"}, "b": {Data: "second\n"}, "d/c": {Data: "not here"}, "empty": {}, "long": {Data: long}}
	if !w.s.NoLinks {
		tree["l"] = Node{Link: "a"}
	}
	w.make(tree)
	w.sees("Visit", w.root, nil, []string{"b", "a", "empty", "a"}, 100, "b second\n", "a first", "empty ", "a first")
	w.sees("Visit of none", w.root, nil, nil, 100)
	w.sees("Visit with a small window", w.root, nil, []string{"a", "b", "empty"}, 6, "a first", "b large", "empty ")
	w.sees("Visit with a window of its size", w.root, nil, []string{"a", "b"}, 5, "a large", "b large")
	w.sees("Visit of what is large", w.root, nil, []string{"a", "long", "b"}, 1000, "a first", "long large", "b second\n")
	w.sees("Visit of all of it", w.root, nil, []string{"long"}, len(long)+1, "long "+long)
	w.sees("Visit of what is no file", w.root, nil, []string{"d", "missing", "a"}, 100, "d notRegular", "missing notFound", "a first")
	w.sees("Visit of bad names", w.root, nil, []string{"", "..", "d/c", "a"}, 100, " invalid", ".. invalid", "d/c invalid", "a first")
	if !w.s.NoLinks {
		w.sees("Visit of a link", w.root, nil, []string{"l", "a"}, 100, "l notRegular", "a first")
	}
}

func testVisitBelow(w *world) {
	deep := strings.Split("d/"+strings.Repeat("n/", vfs.MaxLooked)+"n", "/")
	tree := Tree{"d/e/h": {Data: "deep"}, "d/g": {Data: "below"}, "f": {Data: "no directory"}, strings.Join(deep, "/") + "/x": {Data: "deeper"}}
	if !w.s.NoLinks {
		tree["d/l"] = Node{Link: "e"}
	}
	w.make(tree)
	w.sees("Visit below", w.root, []string{"d"}, []string{"g"}, 100, "g below")
	w.sees("Visit further below", w.root, []string{"d", "e"}, []string{"h", "g"}, 100, "h deep", "g notFound")
	w.sees("Visit from below", w.dir("d"), []string{"e"}, []string{"h"}, 100, "h deep")
	w.sees("Visit deep below", w.root, deep, []string{"x"}, 100, "x deeper")
	for _, c := range []struct {
		dir  []string
		want vfs.Code
	}{
		{[]string{"missing"}, vfs.NotFound},
		{[]string{"d", "missing"}, vfs.NotFound},
		{[]string{"f"}, vfs.NotDir},
		{[]string{"d", "l"}, vfs.NotDir},
		{[]string{""}, vfs.Invalid},
		{[]string{"d", ".."}, vfs.Invalid},
		{[]string{"d/e"}, vfs.Invalid},
	} {
		if slices.Contains(c.dir, "l") && w.s.NoLinks {
			continue
		}
		seen, err := w.visits(w.root, c.dir, []string{"h"}, 100)
		if w.is("Visit below "+strings.Join(c.dir, "/"), err, c.want); len(seen) > 0 {
			w.Errorf("Visit below %q sees %q", c.dir, seen)
		}
	}
}

func testVisitStops(w *world) {
	w.make(Tree{"a": {Data: "x"}, "b": {Data: "y"}, "c": {Data: "z"}})
	n := 0
	w.ok("Visit that is stopped", vfs.Visit(w.ctx, w.root, nil, []string{"a", "b", "c"}, make([]byte, 10), func(vfs.Visited) bool {
		n++
		return n < 2
	}))
	if n != 2 {
		w.Errorf("Visit called %d times, and was stopped at the second", n)
	}
	ctx, cancel := context.WithCancel(w.ctx)
	n = 0
	err := vfs.Visit(ctx, w.root, nil, []string{"a", "b", "c"}, make([]byte, 10), func(f vfs.Visited) bool {
		if n++; n == 2 {
			cancel()
		}
		return true
	})
	if err == nil && n == 3 {
		w.Errorf("Visit does not end with its context")
	}
}

func testVisitRefused(w *world) {
	w.make(Tree{"d/f": {Data: "x"}})
	n, err := w.root.Lookup(w.ctx, "d")
	w.ok("Lookup", err)
	w.ok("Close", n.Close())
	_, err = w.visits(n.(vfs.Dir), nil, []string{"f"}, 10)
	if err == nil { // it looked up each file
		seen, _ := w.visits(n.(vfs.Dir), nil, []string{"f"}, 10)
		err = vfs.Stale
		if !slices.Equal(seen, []string{"f stale"}) {
			w.Errorf("Visit in a closed Dir sees %q", seen)
		}
	}
	w.is("Visit in a closed Dir", err, vfs.Stale)
}

// A directory that was moved is stale.
func testVisitMoved(w *world) {
	w.make(Tree{"a/b/f": {Data: "moved"}})
	held := w.dir("a")
	w.ok("Rename", w.root.Rename(w.ctx, "a", w.root, "gone", vfs.If{}, vfs.If{}))
	seen, err := w.visits(held, []string{"b"}, []string{"f"}, 10)
	if w.is("Visit in a directory that was moved", err, vfs.Stale); len(seen) > 0 {
		w.Errorf("Visit in a directory that was moved sees %q", seen)
	}
	w.sees("Visit where it is", w.root, []string{"gone", "b"}, []string{"f"}, 10, "f moved")
}
