package vfstest

import (
	"strings"

	"capd/vfs"
)

// testMovedBack moves directories away and back. What was opened there before is valid
// again.
func testMovedBack(w *world) {
	w.make(Tree{"p/file": {Data: "file"}, "p/held/old": {Data: "old"}, "elsewhere": {Dir: true}})
	_, err := w.dir("p").Mkdir(w.ctx, "made")
	w.ok("Mkdir", err)
	for range 2 {
		for _, path := range []string{"p", "p/held", "p/made"} {
			parent, name := "", path
			if i := strings.LastIndexByte(path, '/'); i >= 0 {
				parent, name = path[:i], path[i+1:]
			}
			p, held, made := w.dir("p"), w.dir("p/held"), w.dir("p/made")
			file, old := w.readOften(w.file("p/file")), w.readOften(w.file("p/held/old"))
			w.ok("Rename", w.dir(parent).Rename(w.ctx, name, w.dir("elsewhere"), "moved", vfs.If{}, vfs.If{}))
			moved := w.dir("elsewhere/moved")
			w.ok("Rename", w.moves("elsewhere", "", "aside"))
			w.ok("Rename back", w.dir("aside").Rename(w.ctx, "moved", w.dir(parent), name, vfs.If{}, vfs.If{}))
			w.ok("Rename back", w.moves("aside", "", "elsewhere"))
			_, err := moved.Stat(w.ctx)
			w.is("Stat where it was meanwhile", err, vfs.Stale)

			w.reads(file, "file")
			w.reads(old, "old")
			for _, d := range []vfs.Dir{p, held, made} {
				f, err := d.Create(w.ctx, "new")
				w.ok("Create in what was moved back", err)
				w.reads(f, "")
				w.ok("Remove", d.Remove(w.ctx, "new", vfs.If{}))
			}
			w.has("p/held/old", "old")
		}
	}
	// A directory made anew in the meantime is another one.
	held := w.dir("p/held")
	w.ok("Rename", w.dir("p").Rename(w.ctx, "held", w.root, "first", vfs.If{}, vfs.If{}))
	_, err = w.dir("p").Mkdir(w.ctx, "held")
	w.ok("Mkdir", err)
	second := w.dir("p/held")
	_, err = held.Stat(w.ctx)
	w.is("Stat where another was made", err, vfs.Stale)
	w.ok("Remove", w.dir("p").Remove(w.ctx, "held", vfs.If{}))
	w.ok("Rename back", w.root.Rename(w.ctx, "first", w.dir("p"), "held", vfs.If{}, vfs.If{}))
	_, err = held.Lookup(w.ctx, "old")
	w.ok("Lookup in what came back", err)
	_, err = second.Stat(w.ctx)
	w.is("Stat of what was removed", err, vfs.Stale)
}
