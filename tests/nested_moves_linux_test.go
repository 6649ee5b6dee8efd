package tests

import (
	"strings"
	"testing"

	"capd/backend/cas"
	"capd/backend/memory"
	"capd/backend/physical"
	"capd/materialize"
	"capd/vfs"
	"capd/vfs/membrane"
	"capd/vfs/overlay"
	"capd/vfs/search"
	"capd/vfs/vfstest/check"
)

// By moves into each other, a guest makes trees that are deeper than any path. Whatever
// takes a whole tree then ends with limit, or without what is too deep.
func TestNestedMoves(t *testing.T) {
	dir := t.TempDir()
	s, err := physical.OpenAmbient(dir, physical.Options{})
	check.OK(t, err)
	t.Cleanup(func() { s.Close() })
	for name, store := range map[string]func() vfs.Dir{"memory": memory.New(memory.Limits{}).Root, "physical": s.Root} {
		t.Run(name, func(t *testing.T) {
			gate := membrane.NewGate()
			root := membrane.Guarded(store(), gate)
			nestMoves(t, root)
			most := 0
			pattern, err := search.Compile("**")
			check.OK(t, err)
			check.OK(t, search.Search{Pattern: pattern, Visit: func(path string, _ vfs.Kind, _ bool, _ int) bool {
				most = max(most, strings.Count(path, "/"))
				return true
			}}.In(t.Context(), root))
			if most > vfs.MaxDepth {
				t.Errorf("a search found a path of %d names", most)
			}
			base, err := materialize.OpenAmbient(t.TempDir())
			check.OK(t, err)
			defer base.Close()
			_, err = base.New(t.Context(), root, materialize.Options{})
			check.Is(t, "materializing it", err, vfs.Limit)
			blobs, err := cas.OpenAmbient(t.TempDir(), cas.Options{})
			check.OK(t, err)
			_, err = cas.Put(t.Context(), blobs, root, cas.PutOptions{})
			check.Is(t, "storing it", err, vfs.Limit)
			over(t, store())
		})
	}
}

// nestMoves makes a tree of 8 times 120 names, which is deeper than the kernel's PATH_MAX.
func nestMoves(t *testing.T, root vfs.Dir) {
	for range 8 {
		d, err := root.Mkdir(t.Context(), "next")
		for range 119 {
			check.OK(t, err)
			d, err = d.Mkdir(t.Context(), "directory")
		}
		check.OK(t, err)
		if err := root.Rename(t.Context(), "top", d, "top", vfs.If{}, vfs.If{}); vfs.CodeOf(err) != vfs.NotFound {
			check.OK(t, err)
		}
		check.OK(t, d.Close())
		check.OK(t, root.Rename(t.Context(), "next", root, "top", vfs.If{}, vfs.If{}))
	}
}

// over moves the tree in an overlay, which then refuses to apply that.
func over(t *testing.T, lower vfs.Dir) {
	o, err := overlay.New(t.Context(), lower, memory.New(memory.Limits{}).Root(), overlay.Options{})
	check.OK(t, err)
	defer o.Close()
	root := o.Root()
	check.OK(t, root.Rename(t.Context(), "top", root, "moved", vfs.If{}, vfs.If{}))
	changes, err := o.Diff(t.Context(), "")
	check.OK(t, err)
	if len(changes) != 1 {
		t.Errorf("there are %d changes", len(changes))
	}
	_, err = o.Apply(t.Context(), overlay.ApplyOptions{Journal: memory.New(memory.Limits{}).Root()})
	check.Is(t, "applying it", err, vfs.Limit)
	_, _, err = o.Patch(t.Context())
	check.Is(t, "the text of its move", err, vfs.Limit)
	check.OK(t, o.Revert(t.Context(), nil))
}
