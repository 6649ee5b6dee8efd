package vfstest

import (
	"capd/vfs"
)

var closeRules = []rule{
	{"Close/Independent", anyStore, testCloseIndependent},
	{"Close/Dir", writable, testClosedDir},
	{"Close/File", writable, testClosedFile},
	{"Close/Reading", anyStore, testClosedReading},
}

func testCloseIndependent(w *world) {
	w.make(sample)
	d := w.dir("d")
	e, err := d.Lookup(w.ctx, "e")
	w.ok("Lookup", err)
	h, err := e.(vfs.Dir).Lookup(w.ctx, "h")
	w.ok("Lookup", err)
	for range 2 {
		w.ok("Close", d.Close())
	}
	// Neither what was derived from it, nor what it came from, nor another
	// reference to the same.
	w.reads(h.(vfs.File), "further below")
	w.ok("Close", h.Close())
	if _, err := list(w.ctx, e.(vfs.Dir)); err != nil {
		w.Errorf("List after a parent and a child were closed: %v", err)
	}
	w.has("d/g", "below")
	w.has("d/e/h", "further below")
	w.ok("Close again", h.Close())
}

func testClosedDir(w *world) {
	w.make(Tree{"held/old": {Data: "old"}, "f": {Data: "f"}})
	d := w.dir("held")
	w.ok("Close", d.Close())
	w.lostDir("a closed Dir", d)
	w.ok("Close again", d.Close())
}

func testClosedFile(w *world) {
	w.make(sample)
	f := w.file("f")
	other := w.file("f")
	w.ok("Close", f.Close())
	before := w.picture()
	for _, t := range fileOps {
		w.lost("a closed File: "+t.op, t.do(w, f), vfs.Stale)
	}
	w.unchanged("a closed File", before)
	w.reads(other, "the old content")
	made, err := w.root.Create(w.ctx, "made")
	w.ok("Create", err)
	w.ok("Close of what was created", made.Close())
	w.has("made", "")
}

func testClosedReading(w *world) {
	w.make(sample)
	f, d := w.file("f"), w.dir("d")
	w.ok("Close", f.Close())
	w.ok("Close", d.Close())
	for _, t := range fileOps[:4] {
		w.lost("a closed File: "+t.op, t.do(w, f), vfs.Stale)
	}
	for _, t := range dirOps[:3] {
		w.lost("a closed Dir: "+t.op, t.do(w, d), vfs.Stale)
	}
	if w.s.NoLinks {
		return
	}
	l := w.link("l")
	w.ok("Close", l.Close())
	_, err := l.Target(w.ctx)
	w.is("Target of a closed Link", err, vfs.Stale)
	_, err = l.Stat(w.ctx)
	w.is("Stat of a closed Link", err, vfs.Stale)
}
