package overlay_test

import (
	"fmt"
	"strings"
	"testing"

	"capd/vfs"
	"capd/vfs/overlay"
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

// Moves make no paths of any length either. So what is written and read of many nodes is
// bounded by their number.
func TestLongMoves(t *testing.T) {
	b := newBench(t, vfstest.Tree{})
	name := strings.Repeat("n", 255)
	deepest := func(top string) vfs.Dir {
		b.mkdir(b.root, top)
		path := top + strings.Repeat("/"+name, 14)
		for i := range 14 {
			b.mkdir(b.root, path[:len(top)+(i+1)*256])
		}
		d, err := vfs.WalkDir(t.Context(), b.root, path)
		b.must(err)
		t.Cleanup(func() { d.Close() })
		return d
	}
	const nodes = 500
	d := deepest("t0")
	for i := range nodes {
		b.must(closing(d.Create(t.Context(), fmt.Sprint(i))))
	}
	for i := range 8 { // as a guest would: each below the deepest directory of the next
		into := deepest(fmt.Sprintf("t%d", i+1))
		err := b.root.Rename(t.Context(), fmt.Sprintf("t%d", i), into, "t", vfs.If{}, vfs.If{})
		if vfs.CodeOf(err) != vfs.Limit {
			t.Errorf("a move to paths of %d bytes: %v, want limit", (i+2)*15*255, err)
		}
	}
	longest := 0
	for _, c := range diffOf(t, b.o) {
		longest = max(longest, len(c.Path))
	}
	if longest > vfs.MaxPath {
		t.Errorf("a change has a path of %d bytes", longest)
	}
	b.must(b.o.Close())
	upper := b.upper.Root()
	again, err := overlay.New(t.Context(), b.lower, upper, overlay.Options{})
	b.must(err)
	defer again.Close()
	n, err := upper.Lookup(t.Context(), "index")
	b.must(err)
	info, err := n.Stat(t.Context())
	b.must(err)
	if info.Size > (nodes+200)*2*vfs.MaxPath {
		t.Errorf("the index of %d nodes has %d bytes", nodes, info.Size)
	}
}

// Where a path is as long as it may be, a move may make it shorter, or keep its length.
func TestLongestMoves(t *testing.T) {
	b := newBench(t, vfstest.Tree{})
	for _, dir := range []string{"d", "e", "ee", "d/s"} {
		b.mkdir(b.root, dir)
	}
	path := "d/s"
	for range 15 {
		path += "/" + strings.Repeat("n", 255)
		b.mkdir(b.root, path)
	}
	b.put(b.root, path+"/"+strings.Repeat("f", vfs.MaxPath-len(path)-1), "x")
	for _, move := range []struct {
		from, into, to string
		want           vfs.Code
	}{
		{"d", "ee", "s", vfs.Limit}, {"d", "d", "ss", vfs.Limit}, {"d", "e", "s", ""}, {"e", "", "s", ""}, {"", "ee", "s", vfs.Limit}, {"", "e", "s", ""},
	} {
		from, err := dirAt(t.Context(), b.o.Root(), move.from)
		b.must(err)
		into, err := dirAt(t.Context(), b.o.Root(), move.into)
		b.must(err)
		err = from.Rename(t.Context(), "s", into, move.to, vfs.If{}, vfs.If{})
		if vfs.CodeOf(err) != move.want {
			t.Errorf("a move from %q to %q: %v, want %q", move.from, move.into+"/"+move.to, err, move.want)
		}
		b.must(from.Close())
		b.must(into.Close())
	}
	counted(t, b.o)
}
