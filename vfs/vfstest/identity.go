package vfstest

import (
	"errors"
	"io"
	"strings"

	"capd/vfs"
)

var identityRules = []rule{
	{"Identity/Dir", writable, testHeldDir},
	{"Identity/Below", writable, testHeldBelow},
	{"Identity/File", writable, testHeldFile},
	{"Identity/Link", writable, testHeldLink},
	{"Identity/Back", writable, testMovedBack},
}

// dirOps has every method of a Dir that holds a file "old".
var dirOps = []struct {
	op string
	do func(w *world, d vfs.Dir) error
}{
	{"Stat", func(w *world, d vfs.Dir) error { _, err := d.Stat(w.ctx); return err }},
	{"Lookup", func(w *world, d vfs.Dir) error { _, err := d.Lookup(w.ctx, "old"); return err }},
	{"a try to Lookup", func(w *world, d vfs.Dir) error {
		if !vfs.CanTry(d) {
			return errUnasked
		}
		_, err := d.Lookup(vfs.Trying(), "old")
		return unlessWaiting(err)
	}},
	{"List", func(w *world, d vfs.Dir) error { _, err := list(w.ctx, d); return err }},
	{"Create", func(w *world, d vfs.Dir) error { _, err := d.Create(w.ctx, "new"); return err }},
	{"Mkdir", func(w *world, d vfs.Dir) error { _, err := d.Mkdir(w.ctx, "new"); return err }},
	{"Replace", func(w *world, d vfs.Dir) error {
		_, err := d.Replace(w.ctx, "old", strings.NewReader("x"), vfs.If{})
		return err
	}},
	{"Replace of a new name", func(w *world, d vfs.Dir) error {
		_, err := d.Replace(w.ctx, "new", strings.NewReader("x"), vfs.If{})
		return err
	}},
	{"Remove", func(w *world, d vfs.Dir) error { return d.Remove(w.ctx, "old", vfs.If{}) }},
	{"Rename out of it", func(w *world, d vfs.Dir) error {
		return d.Rename(w.ctx, "old", w.root, "out", vfs.If{}, vfs.If{})
	}},
	{"Rename within it", func(w *world, d vfs.Dir) error {
		return d.Rename(w.ctx, "old", d, "new", vfs.If{}, vfs.If{})
	}},
	{"Rename into it", func(w *world, d vfs.Dir) error {
		return w.root.Rename(w.ctx, "f", d, "in", vfs.If{}, vfs.If{})
	}},
}

// fileOps has every method of a File.
var fileOps = []struct {
	op string
	do func(w *world, f vfs.File) error
}{
	{"Stat", func(w *world, f vfs.File) error { _, err := f.Stat(w.ctx); return err }},
	{"ReadAt", func(w *world, f vfs.File) error { _, err := f.ReadAt(w.ctx, make([]byte, 1), 0); return err }},
	{"a try to read", func(w *world, f vfs.File) error {
		_, err := tryReadAt(f, make([]byte, 1), 0)
		return unlessWaiting(err)
	}},
	{"a try to Stat", func(w *world, f vfs.File) error {
		if !vfs.CanTry(f) {
			return errUnasked
		}
		_, err := f.Stat(vfs.Trying())
		return unlessWaiting(err)
	}},
	{"Open", func(w *world, f vfs.File) error { _, err := readAll(w.ctx, f); return err }},
	{"VersionOf", func(w *world, f vfs.File) error { _, err := vfs.VersionOf(w.ctx, f); return err }},
	{"WriteAt", func(w *world, f vfs.File) error { _, err := f.WriteAt(w.ctx, []byte("x"), 0, vfs.If{}); return err }},
	{"Truncate", func(w *world, f vfs.File) error { return f.Truncate(w.ctx, 1, vfs.If{}) }},
	{"Sync", func(w *world, f vfs.File) error { return f.Sync(w.ctx) }},
	{"Append", func(w *world, f vfs.File) error {
		_, err := vfs.Append(w.ctx, f, []byte("x"), vfs.If{})
		if vfs.CodeOf(err) == vfs.Unsupported {
			return errUnasked
		}
		return err
	}},
	{"ReplaceFile", func(w *world, f vfs.File) error {
		_, err := f.Replace(w.ctx, strings.NewReader("x"), vfs.If{})
		if vfs.CodeOf(err) == vfs.Unsupported {
			return errUnasked
		}
		return err
	}},
}

// errUnasked stands for a method that the store does not have.
var errUnasked = errors.New("not asked")

// unlessWaiting returns err, or errUnasked if the answer is to ask again.
func unlessWaiting(err error) error {
	if err == vfs.ErrWouldBlock {
		return errUnasked
	}
	return err
}

// lostDir checks that every method of d answers stale and changes nothing.
func (w *world) lostDir(what string, d vfs.Dir) {
	w.Helper()
	before := w.picture()
	for _, t := range dirOps {
		w.lost(what+": "+t.op, t.do(w, d), vfs.Stale)
	}
	w.unchanged(what, before)
}

// lostFile checks that every method of f answers code and changes nothing.
func (w *world) lostFile(what string, f vfs.File, code vfs.Code) {
	w.Helper()
	before := w.picture()
	for _, t := range fileOps {
		w.lost(what+": "+t.op, t.do(w, f), code)
	}
	w.unchanged(what, before)
}

func (w *world) lost(what string, err error, code vfs.Code) {
	w.Helper()
	if err != errUnasked {
		w.is(what, err, code)
	}
}

// heldDir makes a store with a directory of one file, and opens the directory.
func (w *world) heldDir() vfs.Dir {
	w.Helper()
	w.make(Tree{"p/held/old": {Data: "old"}, "f": {Data: "f"}})
	return w.dir("p/held")
}

func (w *world) removeHeld() {
	w.Helper()
	w.ok("Remove", w.dir("p/held").Remove(w.ctx, "old", vfs.If{}))
	w.ok("Remove", w.dir("p").Remove(w.ctx, "held", vfs.If{}))
}

// readOften reads f several times, so that a store that keeps files open between reads
// does so.
func (w *world) readOften(f vfs.File) vfs.File {
	w.Helper()
	for range 3 {
		if _, err := f.ReadAt(w.ctx, make([]byte, 1), 0); err != nil && err != io.EOF {
			w.Errorf("ReadAt: %v", err)
		}
	}
	return f
}

func testHeldDir(w *world) {
	d := w.heldDir()
	w.removeHeld()
	w.lostDir("a Dir that was removed", d)

	// Many times, since a store may reuse an identity.
	for range 20 {
		d = w.heldDir()
		w.removeHeld()
		again, err := w.dir("p").Mkdir(w.ctx, "held")
		w.ok("Mkdir", err)
		_, err = again.Replace(w.ctx, "old", strings.NewReader("another"), vfs.If{})
		w.ok("Replace", err)
		_, err = d.Lookup(w.ctx, "old")
		w.is("a Dir that was removed and made again", err, vfs.Stale)
	}
	w.lostDir("a Dir that was removed and made again", d)

	d = w.heldDir()
	w.ok("Rename", w.dir("p").Rename(w.ctx, "held", w.root, "away", vfs.If{}, vfs.If{}))
	w.lostDir("a Dir that was moved away", d)
	_, err := w.dir("p").Mkdir(w.ctx, "held")
	w.ok("Mkdir", err)
	_, err = w.dir("p/held").Create(w.ctx, "old")
	w.ok("Create", err)
	w.lostDir("a Dir that was moved away and another made", d)

	d = w.heldDir()
	w.removeHeld()
	_, err = w.dir("p").Create(w.ctx, "held")
	w.ok("Create", err)
	w.lostDir("a Dir where there is a file now", d)
	w.has("p/held", "")
}

// testHeldBelow opens nodes below a directory that then moves.
func testHeldBelow(w *world) {
	w.make(Tree{"p/held/old": {Data: "old"}, "p/file": {Data: "file"}, "f": {Data: "f"}})
	d, f, deep := w.dir("p/held"), w.readOften(w.file("p/file")), w.readOften(w.file("p/held/old"))
	w.ok("Rename", w.moves("p", "", "q"))
	w.lostDir("a Dir below what was moved", d)
	w.lostFile("a File below what was moved", f, vfs.Stale)
	w.lostFile("a File further below what was moved", deep, vfs.Stale)

	// Another tree with the same names takes its place.
	other, err := w.root.Mkdir(w.ctx, "p")
	w.ok("Mkdir", err)
	_, err = other.Replace(w.ctx, "file", strings.NewReader("another file"), vfs.If{})
	w.ok("Replace", err)
	held, err := other.Mkdir(w.ctx, "held")
	w.ok("Mkdir", err)
	_, err = held.Replace(w.ctx, "old", strings.NewReader("another old"), vfs.If{})
	w.ok("Replace", err)
	w.lostDir("a Dir below what was moved, with another in its place", d)
	w.lostFile("a File below what was moved, with another in its place", f, vfs.Stale)
	w.lostFile("a File further below, with another in its place", deep, vfs.Stale)
	w.has("q/held/old", "old")
	w.has("p/held/old", "another old")
}

func testHeldFile(w *world) {
	w.make(sample)
	f := w.readOften(w.file("f"))
	w.put("f", "new")
	w.tries(f, 0, 10, "new")
	w.reads(f, "new")
	w.writes(f, "N", 0)
	w.tries(f, 0, 10, "New")
	w.has("f", "New")
	w.ok("Remove", w.root.Remove(w.ctx, "f", vfs.If{}))
	w.lostFile("a File that was removed", f, vfs.NotFound)
	w.put("f", "made again")
	if got, err := readAll(w.ctx, f); err == nil && got != "made again" {
		w.Errorf("a File that was removed and made again reads %s", short(got))
	} else if err != nil {
		w.is("a File that was removed and made again", err, vfs.Stale)
	}

	f = w.readOften(w.file("f"))
	w.ok("Rename", w.moves("f", "d", "f"))
	w.lostFile("a File that was moved away", f, vfs.NotFound)
	_, err := w.root.Mkdir(w.ctx, "f")
	w.ok("Mkdir", err)
	w.lostFile("a File where there is a directory now", f, vfs.Stale)
	w.has("d/f", "made again")
	if !w.s.NoLinks {
		g := w.readOften(w.file("empty"))
		w.ok("Remove", w.root.Remove(w.ctx, "empty", vfs.If{}))
		w.ok("Rename", w.moves("l", "", "empty"))
		w.lostFile("a File where there is a link now", g, vfs.Stale)
	}

	// A node moved over a File is then at its place.
	over := w.readOften(w.file("x"))
	w.ok("Rename over", w.dir("d").Rename(w.ctx, "f", w.root, "x", vfs.If{}, vfs.If{Is: sum(sample["x"].Data)}))
	if got, err := readAll(w.ctx, over); err == nil && got != "made again" {
		w.Errorf("a File that another was moved over reads %s", short(got))
	} else if err != nil {
		w.is("a File that another was moved over", err, vfs.Stale)
	}
}

func testHeldLink(w *world) {
	if w.s.NoLinks {
		w.Log("no links here")
		return
	}
	w.make(sample)
	l := w.link("l")
	w.ok("Remove", w.root.Remove(w.ctx, "l", vfs.If{}))
	_, err := l.Target(w.ctx)
	w.is("Target of a link that was removed", err, vfs.NotFound)
	_, err = l.Stat(w.ctx)
	w.is("Stat of a link that was removed", err, vfs.NotFound)
	w.put("l", "a file now")
	target, err := l.Target(w.ctx)
	w.is("Target of a link where there is a file now", err, vfs.Stale)
	if target != "" {
		w.Errorf("a lost link still answers %q", target)
	}
	w.ok("Remove", w.root.Remove(w.ctx, "l", vfs.If{}))
	w.ok("Rename", w.moves("up", "", "l"))
	if target, err := l.Target(w.ctx); err == nil && target != "../outside" {
		w.Errorf("a link that another was moved over answers %q", target)
	} else if err != nil && !errors.Is(err, vfs.Stale) {
		w.Errorf("a link that another was moved over answers %v", err)
	}
}
