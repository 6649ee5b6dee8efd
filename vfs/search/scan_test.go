package search_test

import (
	"context"
	"fmt"
	"slices"
	"testing"

	"capd/vfs"
	"capd/vfs/membrane"
	"capd/vfs/search"
	"capd/vfs/vfstest"
	"capd/vfs/vfstest/check"
)

// A route that the host has closed is closed to a search too, before the search and in
// the middle of it.
func TestFindKeepsOffRoutes(t *testing.T) {
	tree := vfstest.Tree{}
	for _, name := range []string{"a", "b", "c"} {
		tree[name+"/f"] = vfstest.Node{Data: name}
		tree[name+"/d/f"] = vfstest.Node{Data: name}
	}
	_, raw := check.Store(t, tree)
	d, c, err := membrane.RevocableDir(membrane.Guarded(scanning{raw}, nil))
	check.OK(t, err)
	defer c.Release()
	search := func(meanwhile func(path string)) (all []string) {
		p, err := search.Compile("**")
		check.OK(t, err)
		check.OK(t, check.Find(t.Context(), d, p, "", func(path string, _ vfs.Kind, _ bool, _ int) bool {
			all = append(all, path)
			meanwhile(path)
			return true
		}))
		return all
	}
	b, err := c.Child(t.Context(), "b")
	check.OK(t, err)
	defer b.Release()
	sameNames(t, "what a search finds", search(func(string) {}), []string{"a", "a/d", "a/d/f", "a/f", "b", "b/d", "b/d/f", "b/f", "c", "c/d", "c/d/f", "c/f"})
	got := search(func(path string) {
		if path == "b/d" {
			b.SetReadable(false)
		}
	})
	sameNames(t, "what it finds when a route is closed in its midst", got, []string{"a", "a/d", "a/d/f", "a/f", "b", "b/d", "c", "c/d", "c/d/f", "c/f"})
	sameNames(t, "what it finds afterwards", search(func(string) {}), []string{"a", "a/d", "a/d/f", "a/f", "b", "c", "c/d", "c/d/f", "c/f"})
}

func sameNames(t *testing.T, what string, got, want []string) {
	t.Helper()
	if !slices.Equal(got, want) {
		t.Errorf("%s: %q, want %q", what, got, want)
	}
}

// scanning is a Dir that can scan.
type scanning struct{ vfs.Dir }

func (s scanning) Lookup(ctx context.Context, name string) (vfs.Node, error) {
	n, err := s.Dir.Lookup(ctx, name)
	if d, ok := n.(vfs.Dir); ok {
		return scanning{d}, err
	}
	return n, err
}

func (s scanning) Scan(ctx context.Context, names []string, most int, found func(string, []vfs.Entry, bool)) error {
	for _, name := range names {
		n, err := s.Dir.Lookup(ctx, name)
		if err != nil {
			found(name, nil, false)
			continue
		}
		var all []vfs.Entry
		for e, lerr := range n.(vfs.Dir).List(ctx) {
			if err = lerr; err != nil {
				break
			}
			all = append(all, e)
		}
		n.Close()
		found(name, all, err == nil && len(all) <= most)
	}
	return nil
}

// A search of many directories finds the same with and without reading ahead, and
// wherever it continues.
func TestFindReadingAhead(t *testing.T) {
	tree := vfstest.Tree{}
	for i := range 30 {
		for j := range i % 13 {
			for k := range (i * j) % 7 {
				tree[fmt.Sprintf("d%02d/e%02d/f%d", i, j, k)] = vfstest.Node{Data: "x"}
				tree[fmt.Sprintf("d%02d/e%02d/g%d/x.go", i, j, k)] = vfstest.Node{Data: "x"}
			}
		}
	}
	_, raw := check.Store(t, tree)
	d := membrane.Guarded(scanning{raw}, nil)
	for _, pattern := range []string{"**", "**/*.go", "d0*/**/g1/*", "*/*/*", "d1?/e0[12]/**"} {
		want := check.Naive(t, raw, pattern)
		got := check.Hits(t, d, pattern, "")
		sameNames(t, pattern, got, want)
		for i := 0; i < len(want); i += 1 + len(want)/20 {
			sameNames(t, pattern+" after "+want[i], check.Hits(t, d, pattern, want[i]), want[i+1:])
		}
	}
}
