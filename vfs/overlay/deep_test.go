package overlay_test

import (
	"testing"

	"capd/vfs"
	"capd/vfs/vfstest"
)

// Moves make no paths of any depth. What left a directory does not count there any more.
func TestDeepMoves(t *testing.T) {
	b := newBench(t, vfstest.Tree{"low/f": {Data: "x"}})
	chain := func(name string, depth int) vfs.Dir {
		d := b.root
		for range depth {
			made, err := d.Mkdir(t.Context(), name)
			b.must(err)
			t.Cleanup(func() { made.Close() })
			d, name = made, "d"
		}
		return d
	}
	moved := func(from, to string, into vfs.Dir) vfs.Code {
		return vfs.CodeOf(b.root.Rename(t.Context(), from, into, to, vfs.If{}, vfs.If{}))
	}
	deep := chain("a", 128)
	chain("b", 128)
	chain("c", 129)
	b.mkdir(b.root, "e")
	b.put(b.root, "e/f", "x")
	if got := moved("c", "c", deep); got != vfs.Limit {
		t.Errorf("a move to 257 names: %q, want limit", got)
	}
	for _, name := range []string{"b", "low", "e"} {
		if got := moved(name, name, deep); got != "" {
			t.Errorf("a move of %s: %q", name, got)
		}
	}
	if got := moved("a", "a", chain("g", 1)); got != vfs.Limit {
		t.Errorf("a move of 256 names one down: %q, want limit", got)
	}
	if got := moved("a", "z", b.root); got != "" {
		t.Errorf("a move of 256 names to another name: %q", got)
	}
	if err := b.root.Rename(t.Context(), "z", b.root, "a", vfs.If{}, vfs.If{}); err != nil {
		t.Fatal(err)
	}
	if err := deep.Rename(t.Context(), "b", b.root, "b", vfs.If{}, vfs.If{}); err != nil {
		t.Error(err)
	}
	if got := moved("a", "a", chain("h", 1)); got != "" {
		t.Errorf("a move of 130 names one down: %q", got)
	}
}
