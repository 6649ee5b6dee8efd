package vfstest

import (
	"context"
	"strings"

	"capd/vfs"
	trees "capd/vfs/change"
)

var copyRules = []rule{
	{"Copy/Whole", writable, testCopy},
	{"Copy/Replaces", writable, testCopyReplaces},
	{"Copy/Refused", writable, testCopyRefused},
	{"Copy/Extracted", writable, testExtract},
}

// copies copies a name of the root to newName in dir, with the conditions from and to.
func (w *world) copies(ctx context.Context, name, dir, newName string, from, to vfs.If) error {
	_, err := trees.Copy(ctx, w.root, name, w.dir(dir), newName, from, to)
	return err
}

func testCopy(w *world) {
	w.make(sample)
	if !w.s.NoLinks {
		w.ok("Remove", w.root.Remove(w.ctx, "up", vfs.If{}))
	}
	for _, name := range []string{"f", "x", "empty"} {
		err := w.copies(w.ctx, name, "", name+"2", vfs.If{}, vfs.If{})
		if vfs.CodeOf(err) == vfs.Unsupported && sample[name].Exec && !w.can.installs {
			w.put(name+"2", sample[name].Data) // make a similar change
			continue
		}
		w.ok("a copy of "+name, err)
		w.has(name+"2", sample[name].Data)
		w.has(name, sample[name].Data)
	}
	if w.can.installs {
		w.executable("a file that was copied", "x2", true)
	}
	w.executable("a file that was not", "f2", false)
	w.ok("a copy of a directory", w.copies(w.ctx, "d", "hollow", "d2", vfs.If{}, vfs.If{}))
	w.has("hollow/d2/g", "below")
	w.has("hollow/d2/e/h", "further below")
	_, err := w.dir("hollow/d2").Replace(w.ctx, "g", strings.NewReader("changed"), vfs.If{})
	w.ok("Replace in a copy", err)
	w.has("d/g", "below")
	w.ok("a copy of a copy", w.copies(w.ctx, "hollow", "d", "all", vfs.If{}, vfs.If{}))
	w.has("d/all/d2/g", "changed")
	if w.can.links {
		w.ok("Symlink", vfs.Symlink(w.ctx, w.dir("hollow/d2"), "in", "e/h"))
		w.ok("a copy with a link", w.copies(w.ctx, "hollow", "", "linked", vfs.If{}, vfs.If{}))
		if target, err := w.link("linked/d2/in").Target(w.ctx); err != nil || target != "e/h" {
			w.Errorf("the link in a copy says %q, %v", target, err)
		}
		w.ok("Symlink", vfs.Symlink(w.ctx, w.dir("hollow"), "out", "../f"))
		w.is("a copy with a link that leads out", w.copies(w.ctx, "hollow", "", "out", vfs.If{}, vfs.If{}), vfs.Outside)
		w.is("Lookup of it", second(w.root.Lookup(w.ctx, "out")), vfs.NotFound)
	}
}

func testCopyReplaces(w *world) {
	w.make(sample)
	over, old := vfs.If{Over: true}, sum("the old content")
	w.ok("a copy over a version", w.copies(w.ctx, "empty", "d", "g", vfs.If{}, vfs.If{Is: sum("below")}))
	w.has("d/g", "")
	w.ok("a copy over a file", w.copies(w.ctx, "f", "d", "g", vfs.If{Is: old}, over))
	w.has("d/g", "the old content")
	before := w.picture()
	w.ok("the same again", w.copies(w.ctx, "f", "d", "g", vfs.If{}, over))
	w.ok("a copy over itself", w.copies(w.ctx, "f", "", "f", vfs.If{}, over))
	w.is("a copy over another version", w.copies(w.ctx, "x", "", "f", vfs.If{}, vfs.If{Is: sum("other")}), vfs.Conflict)
	w.is("a copy of another version", w.copies(w.ctx, "x", "", "f", vfs.If{Is: old}, over), vfs.Conflict)
	w.is("a copy over a directory", w.copies(w.ctx, "f", "", "hollow", vfs.If{}, over), vfs.IsDir)
	w.is("a directory over a file", w.copies(w.ctx, "d", "", "f", vfs.If{}, over), vfs.Exists)
	w.is("a directory over a directory", w.copies(w.ctx, "d", "", "hollow", vfs.If{}, over), vfs.Exists)
	w.is("a directory over a version", w.copies(w.ctx, "d", "", "f", vfs.If{}, vfs.If{Is: old}), vfs.Invalid)
	if !w.s.NoLinks {
		w.is("a copy over a link", w.copies(w.ctx, "x", "", "l", vfs.If{}, over), vfs.NotRegular)
	}
	w.unchanged("copies that change nothing", before)
}

func testCopyRefused(w *world) {
	w.make(sample)
	before := w.picture()
	for _, name := range []string{"f", "d"} {
		for _, there := range []string{"f", "x", "d", "hollow"} {
			w.is("a copy of "+name+" to "+there, w.copies(w.ctx, name, "", there, vfs.If{}, vfs.If{}), vfs.Exists)
		}
		for _, bad := range []string{"", ".", "..", "a/b", "a\x00b", strings.Repeat("x", vfs.MaxName+1)} {
			w.is("a copy to a bad name", w.copies(w.ctx, name, "", bad, vfs.If{}, vfs.If{}), vfs.Invalid)
		}
		ctx, cancel := context.WithCancel(w.ctx)
		cancel()
		if err := w.copies(ctx, name, "", "late", vfs.If{}, vfs.If{}); err == nil {
			w.Errorf("a copy of %s succeeds after its call has ended", name)
		}
	}
	w.is("a copy of nothing", w.copies(w.ctx, "missing", "", "new", vfs.If{}, vfs.If{}), vfs.NotFound)
	w.is("a directory, with a version", w.copies(w.ctx, "d", "", "new", vfs.If{Is: sum("x")}, vfs.If{}), vfs.Invalid)
	if !w.s.NoLinks {
		w.is("a copy of a link", w.copies(w.ctx, "l", "", "new", vfs.If{}, vfs.If{}), vfs.Unsupported)
	}
	w.unchanged("copies that are refused", before)
	err := w.copies(w.ctx, "d", "d/e", "d", vfs.If{}, vfs.If{}) // of what was there before, or refused
	if err == nil {
		w.has("d/e/d/e/h", "further below")
		w.is("Lookup in the copy of itself", second(vfs.Walk(w.ctx, w.root, "d/e/d/e/d")), vfs.NotFound)
		return
	}
	w.is("a copy into itself", err, vfs.Invalid, vfs.Conflict)
	w.unchanged("a copy into itself", before)
}
