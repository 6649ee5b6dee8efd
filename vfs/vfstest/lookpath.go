package vfstest

import (
	"strings"

	"capd/vfs"
)

// Rules for vfs.LookPath. A store may answer ErrStepwise to anything.
var lookPathRules = []rule{
	{"LookPath/SameAsLookup", anyStore, testLookPath},
	{"LookPath/BadNames", anyStore, testLookPathBadNames},
	{"LookPath/Moved", local, testLookPathMoved},
	{"LookPath/Closed", anyStore, testLookPathClosed},
}

func testLookPath(w *world) {
	tree := Tree{"a/b/c/f": {Data: "deep"}, "a/b/f": {Data: "less deep"}, "a/empty": {Dir: true}}
	if !w.s.NoLinks {
		tree["a/l"], tree["a/b/l"], tree["a/b/out"] = Node{Link: "b"}, Node{Link: "f"}, Node{Link: "../../.."}
	}
	w.make(tree)
	for _, from := range []string{"", "a", "a/b"} {
		d := w.root
		if from != "" {
			d = w.dir(from)
		}
		for _, path := range []string{"a", "a/b", "a/b/c", "a/b/c/f", "b/c/f", "b/f", "c/f", "f", "a/empty",
			"none", "a/none", "a/none/f", "a/b/none/c/f", "a/b/f/c", "b/f/c", "f/c", "a/b/c/f/f/f",
			"a/l", "a/l/f", "a/l/c/f", "l/c/f", "a/b/l", "b/l", "a/b/l/f", "a/b/out", "a/b/out/x", "b/out/x"} {
			w.looksAlike(d, from, strings.Split(path, "/"))
		}
	}
}

// looksAlike checks that LookPath answers what Lookup of one name after another does.
func (w *world) looksAlike(d vfs.Dir, from string, names []string) {
	w.Helper()
	got, err := vfs.LookPath(w.ctx, d, names)
	if err == vfs.ErrStepwise {
		return
	}
	want, wantErr := w.oneByOne(d, names)
	if vfs.CodeOf(err) != vfs.CodeOf(wantErr) || (err == nil) != (wantErr == nil) {
		w.Errorf("LookPath %q from %q: %v, want %v", names, from, err, wantErr)
	}
	if err != nil || wantErr != nil {
		return
	}
	a, err := got.Stat(w.ctx)
	w.ok("Stat of what LookPath found", err)
	b, err := want.Stat(w.ctx)
	w.ok("Stat of what Lookup found", err)
	if a != b || vfs.KindOf(got) != vfs.KindOf(want) || vfs.IsImmutable(got) != vfs.IsImmutable(want) {
		w.Errorf("LookPath %q from %q: %v %+v, want %v %+v", names, from, vfs.KindOf(got), a, vfs.KindOf(want), b)
	}
	w.ok("Close", got.Close())
	w.ok("Close", want.Close())
}

func (w *world) oneByOne(d vfs.Dir, names []string) (vfs.Node, error) {
	at := vfs.Node(d)
	for _, name := range names {
		in, ok := at.(vfs.Dir)
		if !ok {
			at.Close()
			return nil, vfs.NotDir
		}
		next, err := in.Lookup(w.ctx, name)
		if in != d {
			in.Close()
		}
		if err != nil {
			return nil, err
		}
		at = next
	}
	return at, nil
}

func testLookPathBadNames(w *world) {
	w.make(Tree{"a/b/f": {Data: "x"}})
	for _, bad := range []string{"", ".", "..", "b/f", "b/../b", "/", "b\x00", strings.Repeat("x", vfs.MaxName+1)} {
		for _, names := range [][]string{{bad}, {"a", bad}, {bad, "a"}, {"a", bad, "f"}, {"a", "b", bad, "f"}, {"a", bad, "..", "a"}} {
			if n, err := vfs.LookPath(w.ctx, w.root, names); err == nil {
				w.Errorf("LookPath %q found a %v", names, vfs.KindOf(n))
				n.Close()
			}
		}
	}
}

// A directory that was moved is stale, and what is at its place now is not found
// through it.
func testLookPathMoved(w *world) {
	w.make(Tree{"a/b/c/f": {Data: "moved"}, "new/c/f": {Data: "new"}})
	held := w.dir("a/b")
	w.ok("Rename", w.root.Rename(w.ctx, "a", w.root, "gone", vfs.If{}, vfs.If{}))
	w.ok("Rename", w.root.Rename(w.ctx, "new", w.dir("gone"), "x", vfs.If{}, vfs.If{}))
	again, err := w.root.Mkdir(w.ctx, "a")
	w.ok("Mkdir", err)
	w.ok("Rename", w.dir("gone").Rename(w.ctx, "x", again, "b", vfs.If{}, vfs.If{}))
	if n, err := vfs.LookPath(w.ctx, held, []string{"c", "f"}); err != vfs.ErrStepwise {
		w.is("LookPath from a directory that was moved", err, vfs.Stale)
		if err == nil {
			n.Close()
		}
	}
	w.has("a/b/c/f", "new")
	w.has("gone/b/c/f", "moved")
}

func testLookPathClosed(w *world) {
	w.make(Tree{"a/b/f": {Data: "x"}})
	n, err := w.root.Lookup(w.ctx, "a")
	w.ok("Lookup", err)
	w.ok("Close", n.Close())
	if n, err := vfs.LookPath(w.ctx, n.(vfs.Dir), []string{"b", "f"}); err != vfs.ErrStepwise {
		w.is("LookPath from a closed directory", err, vfs.Stale)
		if err == nil {
			n.Close()
		}
	}
}
