package vfstest

import (
	"fmt"
	"strings"

	"capd/vfs"
)

// change is one change of the sample that succeeds. f is the sample's file f and d its
// directory d, opened before.
type change struct {
	name  string
	links bool // it needs links
	do    func(w *world, f vfs.File, d vfs.Dir) error
}

// changes has every method that changes something, in each of its variants.
var changes = []change{
	{"Create", false, func(w *world, _ vfs.File, _ vfs.Dir) error {
		_, err := w.root.Create(w.ctx, "new")
		return err
	}},
	{"Mkdir", false, func(w *world, _ vfs.File, d vfs.Dir) error {
		_, err := d.Mkdir(w.ctx, "new")
		return err
	}},
	{"Replace of nothing", false, replaces("new", "new content", vfs.If{})},
	{"Replace of nothing, if absent", false, replaces("new", "new content", vfs.If{Absent: true})},
	{"Replace by more", false, replaces("f", strings.Repeat("longer", 50_000), vfs.If{})},
	{"Replace by less", false, replaces("f", "x", vfs.If{})},
	{"Replace by as much", false, replaces("f", "THE OLD CONTENT", vfs.If{Is: sum("the old content")})},
	{"Replace by nothing", false, replaces("x", "", vfs.If{})},
	{"Replace through the file", false, func(w *world, f vfs.File, _ vfs.Dir) error {
		_, err := f.Replace(w.ctx, strings.NewReader("new"), vfs.If{})
		if vfs.CodeOf(err) == vfs.Unsupported { // make a similar change
			return replaces("f", "new", vfs.If{})(w, nil, nil)
		}
		return err
	}},
	{"Remove of a file", false, removes("f", vfs.If{Is: sum("the old content")})},
	{"Remove of a directory", false, removes("hollow", vfs.If{})},
	{"Remove of a link", true, removes("l", vfs.If{})},
	{"Rename of a file", false, renames("f", "new", vfs.If{})},
	{"Rename of a directory", false, renames("hollow", "new", vfs.If{})},
	{"Rename of a full directory", false, func(w *world, _ vfs.File, d vfs.Dir) error {
		return d.Rename(w.ctx, "e", w.root, "new", vfs.If{}, vfs.If{})
	}},
	{"Rename of a link", true, renames("l", "new", vfs.If{})},
	{"Rename into a directory", false, func(w *world, _ vfs.File, d vfs.Dir) error {
		return w.root.Rename(w.ctx, "x", d, "x", vfs.If{}, vfs.If{})
	}},
	{"Rename over a file", false, renames("x", "f", vfs.If{Is: sum("the old content")})},
	{"WriteAt within", false, writesAt("THE", 0, vfs.If{})},
	{"WriteAt over the end", false, writesAt("ending, and more of it", 10, vfs.If{Is: sum("the old content")})},
	{"WriteAt after a gap", false, writesAt("far", 100_000, vfs.If{})},
	{"Truncate to more", false, truncates(100_000, vfs.If{})},
	{"Truncate to less", false, truncates(3, vfs.If{Is: sum("the old content")})},
	{"SetAttributes", false, setsAttributes(vfs.Attributes{Exec: new(true)}, vfs.If{})},
	{"SetAttributes of a version", false, setsAttributes(vfs.Attributes{Exec: new(true), ModifiedMs: new(int64(aDay))}, vfs.If{Is: sum("the old content")})},
	{"Append", false, func(w *world, f vfs.File, _ vfs.Dir) error {
		_, err := vfs.Append(w.ctx, f, []byte(" and more"), vfs.If{})
		if vfs.CodeOf(err) == vfs.Unsupported { // make a similar change
			_, err = f.WriteAt(w.ctx, []byte(" and more"), 15, vfs.If{})
		}
		return err
	}},
}

func replaces(name, data string, c vfs.If) func(*world, vfs.File, vfs.Dir) error {
	return func(w *world, _ vfs.File, _ vfs.Dir) error {
		v, err := w.root.Replace(w.ctx, name, strings.NewReader(data), c)
		if err == nil && v != sum(data) {
			return fmt.Errorf("Replace answers a version that is not what it wrote")
		}
		return err
	}
}

func removes(name string, c vfs.If) func(*world, vfs.File, vfs.Dir) error {
	return func(w *world, _ vfs.File, _ vfs.Dir) error { return w.root.Remove(w.ctx, name, c) }
}

func renames(name, newName string, to vfs.If) func(*world, vfs.File, vfs.Dir) error {
	return func(w *world, _ vfs.File, _ vfs.Dir) error {
		return w.root.Rename(w.ctx, name, w.root, newName, vfs.If{}, to)
	}
}

func writesAt(data string, off int64, c vfs.If) func(*world, vfs.File, vfs.Dir) error {
	return func(w *world, f vfs.File, _ vfs.Dir) error {
		_, err := f.WriteAt(w.ctx, []byte(data), off, c)
		return err
	}
}

func truncates(size int64, c vfs.If) func(*world, vfs.File, vfs.Dir) error {
	return func(w *world, f vfs.File, _ vfs.Dir) error { return f.Truncate(w.ctx, size, c) }
}

var immutableRules = []rule{
	{"Immutable/Changes", immutable, testImmutable},
	{"Immutable/Others", immutable, testImmutableOthers},
}

func testImmutable(w *world) {
	w.make(sample)
	before := w.picture()
	f, d := w.file("f"), w.dir("d")
	for _, c := range changes {
		if c.links && w.s.NoLinks {
			continue
		}
		err := c.do(w, f, d)
		w.is(c.name, err, vfs.ReadOnly)
	}
	w.unchanged("changes of what cannot change", before)
}

// testImmutableOthers makes changes that would fail in any store. They answer readOnly
// too, so that the answer reveals nothing else.
func testImmutableOthers(w *world) {
	w.make(sample)
	f, d := w.file("f"), w.dir("d")
	for what, do := range map[string]func(*world, vfs.File, vfs.Dir) error{
		"Remove of nothing":           removes("missing", vfs.If{}),
		"Remove of a full directory":  removes("d", vfs.If{}),
		"Replace of a directory":      replaces("d", "x", vfs.If{}),
		"Replace of another version":  replaces("f", "x", vfs.If{Is: sum("else")}),
		"Rename to what exists":       renames("f", "x", vfs.If{}),
		"Rename of nothing":           renames("missing", "new", vfs.If{}),
		"WriteAt of another version":  writesAt("x", 0, vfs.If{Is: sum("else")}),
		"Truncate of another version": truncates(0, vfs.If{Is: sum("else")}),
		"SetAttributes of nothing":    setsAttributes(vfs.Attributes{}, vfs.If{}),
		"Create of what exists":       func(w *world, _ vfs.File, _ vfs.Dir) error { _, err := w.root.Create(w.ctx, "f"); return err },
		"Mkdir of what exists":        func(w *world, _ vfs.File, _ vfs.Dir) error { _, err := w.root.Mkdir(w.ctx, "d"); return err },
	} {
		w.is(what, do(w, f, d), vfs.ReadOnly)
	}
}
