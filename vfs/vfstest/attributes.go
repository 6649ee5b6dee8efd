package vfstest

import "capd/vfs"

var attributeRules = []rule{
	{"Attributes/Set", writable, testAttributes},
	{"Attributes/Refused", writable, testAttributesRefused},
	{"Attributes/Held", writable, testAttributesHeld},
}

// aDay is a moment in 2023, in milliseconds.
const aDay = 1_700_000_000_123

func setsAttributes(a vfs.Attributes, c vfs.If) func(*world, vfs.File, vfs.Dir) error {
	return func(w *world, f vfs.File, _ vfs.Dir) error { return vfs.SetAttributes(w.ctx, f, a, c) }
}

func testAttributes(w *world) {
	w.make(sample)
	is := func(what, path string, exec bool, ms int64) {
		w.Helper()
		info, err := w.file(path).Stat(w.ctx)
		if err != nil || info.Exec != exec || ms != 0 && info.ModifiedMs != ms {
			w.Errorf("%s: %s is %+v, %v; want executable %v, modified %d", what, path, info, err, exec, ms)
		}
	}
	f := w.file("f")
	before, err := vfs.VersionOf(w.ctx, f)
	w.ok("VersionOf", err)
	w.ok("setting the bit", vfs.SetAttributes(w.ctx, f, vfs.Attributes{Exec: new(true)}, vfs.If{}))
	is("after that", "f", true, 0)
	w.ok("setting it again", vfs.SetAttributes(w.ctx, f, vfs.Attributes{Exec: new(true)}, vfs.If{Is: before}))
	w.ok("setting the time", vfs.SetAttributes(w.ctx, f, vfs.Attributes{ModifiedMs: new(int64(aDay))}, vfs.If{}))
	is("after that", "f", true, aDay)
	w.ok("Sync", f.Sync(w.ctx))
	w.ok("setting both", vfs.SetAttributes(w.ctx, f, vfs.Attributes{Exec: new(false), ModifiedMs: new(int64(1000))}, vfs.If{Is: before}))
	is("after that", "f", false, 1000)
	w.ok("setting the last time", vfs.SetAttributes(w.ctx, f, vfs.Attributes{ModifiedMs: new(int64(vfs.MaxModifiedMs))}, vfs.If{}))
	is("after that", "f", false, vfs.MaxModifiedMs)
	if now, err := vfs.VersionOf(w.ctx, f); err != nil || now != before {
		w.Errorf("the version became %v, %v", now, err)
	}
	w.has("f", "the old content")
	w.ok("setting the bit of what is below", vfs.SetAttributes(w.ctx, w.file("d/e/h"), vfs.Attributes{Exec: new(true)}, vfs.If{}))
	w.has("d/e/h", "further below")
	is("after that", "d/e/h", true, 0)

	x := w.file("x")
	w.ok("clearing the bit", vfs.SetAttributes(w.ctx, x, vfs.Attributes{Exec: new(false)}, vfs.If{}))
	is("after that", "x", false, 0)
	w.put("x", "replaced")
	is("after a Replace", "x", false, 0)
	w.ok("setting the bit", vfs.SetAttributes(w.ctx, x, vfs.Attributes{Exec: new(true), ModifiedMs: new(int64(aDay))}, vfs.If{}))
	w.ok("Rename", w.moves("x", "d", "x"))
	is("after a Rename", "d/x", true, aDay)
	w.writes(w.file("d/x"), "R", 0)
	w.has("d/x", "Replaced")
	is("after a write", "d/x", true, 0)
	if info, err := w.file("d/x").Stat(w.ctx); err != nil || info.ModifiedMs == aDay {
		w.Errorf("a write leaves the time: %+v, %v", info, err)
	}
}

func testAttributesRefused(w *world) {
	w.make(sample)
	before := w.picture()
	f := w.file("f")
	is := func(what string, a vfs.Attributes, c vfs.If, code vfs.Code) {
		w.Helper()
		w.is(what, vfs.SetAttributes(w.ctx, f, a, c), code)
	}
	exec := vfs.Attributes{Exec: new(true)}
	is("nothing to set", vfs.Attributes{}, vfs.If{}, vfs.Invalid)
	is("a time before all", vfs.Attributes{Exec: new(true), ModifiedMs: new(int64(-1))}, vfs.If{}, vfs.Invalid)
	is("a time after all", vfs.Attributes{ModifiedMs: new(int64(vfs.MaxModifiedMs + 1))}, vfs.If{}, vfs.Invalid)
	is("another version", exec, vfs.If{Is: sum("else")}, vfs.Conflict)
	is("absent", exec, vfs.If{Absent: true}, vfs.Conflict)
	w.unchanged("SetAttributes, refused", before)
	w.ok("Remove", w.root.Remove(w.ctx, "f", vfs.If{}))
	is("what was removed", exec, vfs.If{}, vfs.NotFound)
	_, err := w.root.Mkdir(w.ctx, "f")
	w.ok("Mkdir", err)
	is("a directory in its place", exec, vfs.If{}, vfs.Stale)
	g := w.file("x")
	w.ok("Close", g.Close())
	w.is("a closed File", vfs.SetAttributes(w.ctx, g, exec, vfs.If{}), vfs.Stale)
}

// testAttributesHeld: what is read meanwhile stays the same.
func testAttributesHeld(w *world) {
	w.make(sample)
	f := w.file("f")
	c, err := vfs.Open(w.ctx, f)
	w.ok("Open", err)
	defer c.Close()
	for range 3 {
		w.ok("setting the bit", vfs.SetAttributes(w.ctx, f, vfs.Attributes{Exec: new(true)}, vfs.If{}))
		w.ok("clearing it", vfs.SetAttributes(w.ctx, f, vfs.Attributes{Exec: new(false)}, vfs.If{}))
	}
	b := make([]byte, 15)
	if n, err := c.ReadAt(b, 0); string(b[:n]) != "the old content" {
		w.Errorf("the content that was held open reads %q, %v", b[:n], err)
	}
	w.reads(f, "the old content")
}
