package vfstest

import (
	"context"
	"errors"
	"strings"

	"capd/vfs"
)

var conditionRules = []rule{
	{"If/Replace", writable, testIfReplace},
	{"If/Write", writable, testIfWrite},
	{"If/Remove", writable, testIfRemove},
	{"If/RemoveNoFile", local, testIfRemoveNoFile},
	{"If/Cancelled", writable, testChangeCancelled},
}

func testIfReplace(w *world) {
	w.make(sample)
	replace := func(name, data string, c vfs.If) (vfs.Version, error) {
		return w.root.Replace(w.ctx, name, strings.NewReader(data), c)
	}
	old := sum("the old content")
	before := w.picture()
	for what, try := range map[string]func() error{
		"another version": func() error { _, err := replace("f", "x", vfs.If{Is: sum("else")}); return err },
		"the version of what it would be": func() error {
			_, err := replace("f", "x", vfs.If{Is: sum("x")})
			return err
		},
		"absent, and it is not": func() error { _, err := replace("f", "x", vfs.If{Absent: true}); return err },
		"a version of nothing":  func() error { _, err := replace("missing", "x", vfs.If{Is: old}); return err },
		"the version of nothing at all": func() error {
			_, err := replace("missing", "x", vfs.If{Is: sum("")})
			return err
		},
		"both at once": func() error { _, err := replace("f", "x", vfs.If{Absent: true, Is: old}); return err },
	} {
		w.is("Replace if "+what, try(), vfs.Conflict)
	}
	_, err := replace("d", "x", vfs.If{Absent: true})
	w.is("Replace of a directory if absent", err, vfs.Conflict, vfs.IsDir)
	_, err = replace("d", "x", vfs.If{Is: old})
	w.is("Replace of a directory if it is a version", err, vfs.Conflict, vfs.IsDir)
	if !w.s.NoLinks {
		_, err = replace("l", "x", vfs.If{Absent: true})
		w.is("Replace of a link if absent", err, vfs.Conflict, vfs.NotRegular)
		_, err = replace("l", "x", vfs.If{Is: old})
		w.is("Replace of a link if it is what the link leads to", err, vfs.Conflict, vfs.NotRegular)
	}
	w.unchanged("conflicts", before)

	v, err := replace("f", "second", vfs.If{Is: old})
	w.ok("Replace if it is the version", err)
	_, err = replace("f", "third", vfs.If{Is: old})
	w.is("Replace if it is the version before", err, vfs.Conflict)
	v, err = replace("f", "third", vfs.If{Is: v})
	w.ok("Replace if it is the version that Replace answered", err)
	w.has("f", "third")
	w.writes(w.file("f"), "T", 0)
	_, err = replace("f", "fourth", vfs.If{Is: v})
	w.is("Replace if it is the version before WriteAt", err, vfs.Conflict)
	_, err = replace("f", "fourth", vfs.If{Is: sum("Third")})
	w.ok("Replace if it is the version after WriteAt", err)
	_, err = replace("fresh", "", vfs.If{Absent: true})
	w.ok("Replace if absent", err)
	_, err = replace("fresh", "x", vfs.If{Is: sum("")})
	w.ok("Replace if empty", err)
	w.has("fresh", "x")
}

func testIfWrite(w *world) {
	w.make(sample)
	f := w.file("f")
	before := w.picture()
	for _, c := range []vfs.If{{Is: sum("else")}, {Absent: true}} {
		n, err := f.WriteAt(w.ctx, []byte("x"), 0, c)
		w.is("WriteAt", err, vfs.Conflict)
		if n != 0 {
			w.Errorf("WriteAt wrote %d bytes beside a conflict", n)
		}
		w.is("Truncate", f.Truncate(w.ctx, 3, c), vfs.Conflict)
		if _, err := vfs.Append(w.ctx, f, []byte("x"), c); vfs.CodeOf(err) != vfs.Unsupported {
			w.is("Append", err, vfs.Conflict)
		}
	}
	w.unchanged("conflicts", before)
	_, err := f.WriteAt(w.ctx, []byte("THE"), 0, vfs.If{Is: sum("the old content")})
	w.ok("WriteAt", err)
	_, err = f.WriteAt(w.ctx, []byte("x"), 0, vfs.If{Is: sum("the old content")})
	w.is("WriteAt for the second time", err, vfs.Conflict)
	w.ok("Truncate", f.Truncate(w.ctx, 7, vfs.If{Is: sum("THE old content")}))
	w.is("Truncate for the second time", f.Truncate(w.ctx, 7, vfs.If{Is: sum("THE old content")}), vfs.Conflict)
	w.reads(f, "THE old")
	if _, err := vfs.Append(w.ctx, f, []byte("!"), vfs.If{Is: sum("THE old")}); vfs.CodeOf(err) != vfs.Unsupported {
		w.ok("Append", err)
		w.reads(f, "THE old!")
	}
}

func testIfRemove(w *world) {
	w.make(sample)
	before := w.picture()
	remove := func(name string, c vfs.If) error { return w.root.Remove(w.ctx, name, c) }
	w.is("Remove if it is another version", remove("f", vfs.If{Is: sum("else")}), vfs.Conflict)
	w.is("Remove if it is absent", remove("f", vfs.If{Absent: true}), vfs.Conflict, vfs.Invalid)
	w.is("Remove of nothing if it is a version", remove("missing", vfs.If{Is: sum("x")}), vfs.Conflict, vfs.NotFound)
	w.is("Remove of nothing if it is absent", remove("missing", vfs.If{Absent: true}), vfs.Conflict, vfs.NotFound, vfs.Invalid)
	w.unchanged("conflicts", before)
	w.ok("Remove if it is the version", remove("f", vfs.If{Is: sum("the old content")}))
	_, err := w.root.Lookup(w.ctx, "f")
	w.is("Lookup of what was removed", err, vfs.NotFound)
}

// testIfRemoveNoFile: who takes something for a directory or a link removes no file.
func testIfRemoveNoFile(w *world) {
	w.make(Tree{"f": {Data: "kept"}, "d/e": {Dir: true}})
	remove := func(d vfs.Dir, name string) error { return d.Remove(w.ctx, name, vfs.If{NoFile: true}) }
	w.is("Remove of a file if there is none", remove(w.root, "f"), vfs.Conflict)
	w.is("Remove of nothing if it is no file", remove(w.root, "missing"), vfs.NotFound)
	w.is("Remove of a full directory if it is no file", remove(w.root, "d"), vfs.NotEmpty)
	w.ok("Remove of a directory if it is no file", remove(w.dir("d"), "e"))
	w.ok("Remove of a directory if it is no file", remove(w.root, "d"))
	w.has("f", "kept")
	if w.s.NoLinks {
		return
	}
	w.make(Tree{"f": {Data: "kept"}, "l": {Link: "f"}})
	w.ok("Remove of a link if it is no file", remove(w.root, "l"))
	w.has("f", "kept")
}

// testChangeCancelled makes every change with a context that has ended.
func testChangeCancelled(w *world) {
	ctx, cancel := context.WithCancel(w.ctx)
	cancel()
	for _, c := range changes {
		if c.links && w.s.NoLinks {
			continue
		}
		w.make(sample)
		before := w.picture()
		f, d := w.file("f"), w.dir("d")
		if err := c.do(w.with(ctx), f, d); err == nil {
			w.Errorf("%s with a cancelled context answers no error", c.name)
		} else if !errors.Is(err, context.Canceled) {
			w.fit(c.name, err)
		}
		w.unchanged(c.name+" with a cancelled context", before)
	}
}
