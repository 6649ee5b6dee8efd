package vfstest

import (
	"fmt"
	"strings"

	"capd/vfs"
)

var removeRules = []rule{
	{"Remove/Gone", writable, testRemove},
	{"Remove/Refused", writable, testRemoveRefused},
}

func testRemove(w *world) {
	w.make(sample)
	names := []string{"f", "empty", "hollow"}
	if !w.s.NoLinks {
		names = append(names, "up", "nowhere")
	}
	for _, name := range names {
		w.ok("Remove "+name, w.root.Remove(w.ctx, name, vfs.If{}))
		_, err := w.root.Lookup(w.ctx, name)
		w.is("Lookup of what was removed", err, vfs.NotFound)
		w.is("Remove again", w.root.Remove(w.ctx, name, vfs.If{}), vfs.NotFound)
	}
	d := w.dir("d")
	w.ok("Remove", w.dir("d/e").Remove(w.ctx, "h", vfs.If{}))
	w.ok("Remove of a directory that became empty", d.Remove(w.ctx, "e", vfs.If{}))
	w.has("d/g", "below")
	if !w.s.NoLinks { // the link itself, never what it leads to
		w.put("f", "back")
		w.ok("Remove of a link", w.root.Remove(w.ctx, "l", vfs.If{}))
		w.has("f", "back")
	}
}

func testRemoveRefused(w *world) {
	w.make(sample)
	before := w.picture()
	w.is("Remove of a full directory", w.root.Remove(w.ctx, "d", vfs.If{}), vfs.NotEmpty)
	w.is("Remove of what is not there", w.root.Remove(w.ctx, "missing", vfs.If{}), vfs.NotFound)
	names := []string{"hollow"}
	if !w.s.NoLinks {
		names = append(names, "l")
	}
	for _, name := range names {
		for _, c := range []vfs.If{{Is: sum("x")}, {Is: sum("")}, {Absent: true}} {
			w.is(fmt.Sprintf("Remove %s with a condition", name), w.root.Remove(w.ctx, name, c), vfs.Invalid)
		}
	}
	w.unchanged("Remove refused", before)
	many := Tree{}
	for i := range 300 {
		many[fmt.Sprintf("many/%d", i)] = Node{Data: strings.Repeat("x", i)}
	}
	w.make(many)
	d := w.dir("many")
	for i := range 300 {
		w.is("Remove of a full directory", w.root.Remove(w.ctx, "many", vfs.If{}), vfs.NotEmpty)
		w.ok("Remove", d.Remove(w.ctx, fmt.Sprint(i), vfs.If{}))
	}
	w.ok("Remove", w.root.Remove(w.ctx, "many", vfs.If{}))
}
