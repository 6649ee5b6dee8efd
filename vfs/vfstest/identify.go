package vfstest

import (
	"regexp"

	"capd/vfs"
)

// identityText is what an identity may look like.
var identityText = regexp.MustCompile(`^[ -~]{1,128}$`)

// identity returns the identity of the directory at path, "" if the store does not have
// one for it.
func (w *world) identity(path string) string {
	w.Helper()
	text, err := vfs.Identity(w.ctx, w.dir(path))
	if vfs.CodeOf(err) == vfs.Unsupported {
		return ""
	}
	w.ok("Identity of "+path, err)
	if !identityText.MatchString(text) {
		w.Errorf("the identity of %s is %q", path, text)
	}
	return text
}

// ticks returns when the store's clock shows a later time than before, since a file system
// may use the number of a removed directory again, and tells the two by their birth.
func (w *world) ticks() {
	w.Helper()
	var first int64
	for range 1 << 20 {
		d, err := w.root.Mkdir(w.ctx, "tick")
		w.ok("Mkdir", err)
		info, err := d.Stat(w.ctx)
		w.ok("Stat", err)
		w.ok("Remove", w.root.Remove(w.ctx, "tick", vfs.If{}))
		d.Close()
		if first == 0 {
			first = info.ModifiedMs
		}
		if info.ModifiedMs > first+1 {
			return
		}
	}
	w.Fatal("the store's clock stands still")
}

func testIdentity(w *world) {
	w.make(Tree{"p/held/old": {Data: "old"}, "p/other": {Dir: true}})
	first := w.identity("p/held")
	if first == "" {
		return // it is optional
	}
	if again := w.identity("p/held"); again != first {
		w.Errorf("the identity of one directory is %q and %q", first, again)
	}
	for _, path := range []string{"", "p", "p/other"} {
		if other := w.identity(path); other == first {
			w.Errorf("%q and p/held have the identity %q", path, other)
		}
	}
	d := w.dir("p/held")
	w.ok("Rename", w.moves("p", "", "q"))
	w.ok("Rename", w.dir("q").Rename(w.ctx, "held", w.root, "away", vfs.If{}, vfs.If{}))
	_, err := vfs.Identity(w.ctx, d)
	w.is("Identity of a Dir that was moved", err, vfs.Stale)
	if moved := w.identity("away"); moved != first {
		w.Errorf("the identity was %q, and after two moves it is %q", first, moved)
	}
	w.madeAgain("away")
	w.ok("Close", d.Close())
	_, err = vfs.Identity(w.ctx, d)
	w.is("Identity of a closed Dir", err, vfs.Stale)
}

// madeAgain removes the directory called name with its one file and makes it again, some
// times. It checks that none of them has the identity of an earlier one.
func (w *world) madeAgain(name string) {
	w.Helper()
	seen := map[string]bool{w.identity(name): true}
	w.ok("Remove", w.dir(name).Remove(w.ctx, "old", vfs.If{}))
	for range 5 {
		w.ok("Remove", w.root.Remove(w.ctx, name, vfs.If{}))
		w.ticks()
		_, err := w.root.Mkdir(w.ctx, name)
		w.ok("Mkdir", err)
		text := w.identity(name)
		if seen[text] {
			w.Errorf("a directory that was made again has the identity %q of an earlier one", text)
		}
		if text != "" {
			seen[text] = true
		}
	}
}
