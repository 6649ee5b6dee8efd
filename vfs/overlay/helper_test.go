package overlay_test

import (
	"slices"
	"strings"
	"testing"

	"capd/backend/memory"
	"capd/vfs"
	"capd/vfs/overlay"
	"capd/vfs/vfstest"
)

// text is the content of the file at path.
func text(t testing.TB, d vfs.Dir, path string) string {
	t.Helper()
	f, err := vfs.WalkFile(t.Context(), d, path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	s, err := contentOf(t.Context(), f)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// treeOf is a tree of files and directories as it is.
func treeOf(t testing.TB, d vfs.Dir) vfstest.Tree {
	t.Helper()
	tree := vfstest.Tree{}
	for path := range picture(t, d) {
		if dir, ok := strings.CutSuffix(path, "/"); ok {
			if dir != "" {
				tree[dir] = vfstest.Node{Dir: true}
			}
		} else {
			tree[path] = vfstest.Node{Data: text(t, d, path)}
		}
	}
	return tree
}

// bench is an overlay in memory.
type bench struct {
	*testing.T
	lower vfs.Dir
	upper *memory.Store
	o     *overlay.Overlay
	root  vfs.Dir
}

func newBench(t *testing.T, tree vfstest.Tree) *bench {
	b := &bench{T: t, lower: lowerOf(t, tree), upper: memory.New(memory.Limits{})}
	b.o = laid(t, b.lower, b.upper.Root())
	b.root = b.o.Root()
	return b
}

func (b *bench) must(err error) {
	b.Helper()
	if err != nil {
		b.Fatal(err)
	}
}

func (b *bench) put(d vfs.Dir, path, data string) {
	b.Helper()
	_, err := vfs.Put(b.Context(), d, path, strings.NewReader(data), vfs.If{})
	b.must(err)
}

// remove removes path, and all below it.
func (b *bench) remove(d vfs.Dir, path string) {
	b.Helper()
	in, name, release, err := vfs.WalkParent(b.Context(), d, path)
	b.must(err)
	defer release()
	n, err := in.Lookup(b.Context(), name)
	b.must(err)
	defer n.Close()
	if below, ok := n.(vfs.Dir); ok {
		for e, err := range below.List(b.Context()) {
			b.must(err)
			b.remove(below, e.Name)
		}
	}
	b.must(in.Remove(b.Context(), name, vfs.If{}))
}

func (b *bench) move(from, to string) {
	b.Helper()
	in, name, release, err := vfs.WalkParent(b.Context(), b.root, from)
	b.must(err)
	defer release()
	into, newName, release2, err := vfs.WalkParent(b.Context(), b.root, to)
	b.must(err)
	defer release2()
	b.must(in.Rename(b.Context(), name, into, newName, vfs.If{}, vfs.If{}))
}

func (b *bench) mkdir(d vfs.Dir, path string) {
	b.Helper()
	in, name, release, err := vfs.WalkParent(b.Context(), d, path)
	b.must(err)
	defer release()
	_, err = in.Mkdir(b.Context(), name)
	b.must(err)
}

// changed checks the answer of Diff, one change a line.
func (b *bench) changed(want ...string) {
	b.Helper()
	got := []string{}
	for _, c := range diffOf(b, b.o) {
		line := string(c.Kind) + " " + c.Path
		if c.From != "" {
			line += " from " + c.From
		}
		got = append(got, line)
	}
	if !slices.Equal(got, want) {
		b.Errorf("changes are %q, want %q", got, want)
	}
}

var project = vfstest.Tree{
	"src/a.go": {Data: "package a\n"}, "src/b.go": {Data: "package b\n"}, "src/sub/c.go": {Data: "package c\n"},
	"run": {Data: "#!\n", Exec: true}, "doc": {Data: "one\ntwo\nthree\n"}, "now": {Link: "doc"}, "hollow": {Dir: true},
}

// counted checks the overlay's count of its nodes.
func counted(t testing.TB, o *overlay.Overlay) {
	t.Helper()
	if o.Miscounted() {
		t.Error("the nodes are miscounted")
	}
}

// closing closes n, if there is no error.
func closing[N vfs.Node](n N, err error) error {
	if err != nil {
		return err
	}
	return n.Close()
}
