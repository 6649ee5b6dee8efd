package vfstest

import (
	"fmt"
	"strings"

	"capd/vfs"
)

var nameRules = []rule{
	{"Names/Bad", anyStore, testBadNames},
	{"Names/New", writable, testNewNames},
	{"Names/Fine", writable, testFineNames},
}

// badNames are invalid wherever a name is taken.
var badNames = []string{
	"", ".", "..", "/", "a/b", "/f", "f/", "/etc/passwd", "../f", "d/../f", "a/../../x", "./f", "a\x00b", "\x00",
	strings.Repeat("n", 256), strings.Repeat("界", 86), strings.Repeat("n", 70_000),
}

// badNewNames may be looked up, but not created.
var badNewNames = []string{
	"\xff", "a\xc3", "\xed\xa0\x80", "a\nb", "\t", "a\x7f", "a\u0085", "\u202e", "txt.\u202ecod", "\u2066x", "\u200b", "a\u200d", "\u2060",
	"\ufeff", "\u2028", "\u2029", "\u00ad", "\u3164", "\U000e0041", `a\b`, `..\x`, `\`,
}

// takesName has each operation that takes a name, of an existing or a new node.
var takesName = []struct {
	op   string
	made bool // it creates the name
	do   func(w *world, name string) error
}{
	{"Lookup", false, func(w *world, name string) error { _, err := w.root.Lookup(w.ctx, name); return err }},
	{"Remove", false, func(w *world, name string) error { return w.root.Remove(w.ctx, name, vfs.If{}) }},
	{"Rename from", false, func(w *world, name string) error {
		return w.root.Rename(w.ctx, name, w.root, "fine", vfs.If{}, vfs.If{})
	}},
	{"Rename to", true, func(w *world, name string) error {
		return w.root.Rename(w.ctx, "f", w.root, name, vfs.If{}, vfs.If{})
	}},
	{"Rename to below", true, func(w *world, name string) error {
		return w.root.Rename(w.ctx, "f", w.dir("d"), name, vfs.If{}, vfs.If{})
	}},
	{"Create", true, func(w *world, name string) error { _, err := w.root.Create(w.ctx, name); return err }},
	{"Mkdir", true, func(w *world, name string) error { _, err := w.root.Mkdir(w.ctx, name); return err }},
	{"Replace", true, func(w *world, name string) error {
		_, err := w.root.Replace(w.ctx, name, strings.NewReader("x"), vfs.If{})
		return err
	}},
	{"Replace if absent", true, func(w *world, name string) error {
		_, err := w.root.Replace(w.ctx, name, strings.NewReader("x"), vfs.If{Absent: true})
		return err
	}},
}

func testBadNames(w *world) {
	w.make(sample)
	before := w.picture()
	for _, name := range badNames {
		for _, t := range takesName {
			codes := []vfs.Code{vfs.Invalid}
			if w.s.Immutable && t.op != "Lookup" { // immutability is answered before errors of the arguments
				codes = []vfs.Code{vfs.ReadOnly}
				if w.s.Remote { // not even sent
					codes = append(codes, vfs.Invalid)
				}
			}
			w.is(fmt.Sprintf("%s %.40q", t.op, name), t.do(w, name), codes...)
		}
	}
	w.unchanged("bad names", before)
}

func testNewNames(w *world) {
	w.make(sample)
	before := w.picture()
	for _, name := range badNewNames {
		for _, t := range takesName {
			codes := []vfs.Code{vfs.Invalid}
			if !t.made { // it may exist, made by another client
				codes = append(codes, vfs.NotFound)
			}
			w.is(fmt.Sprintf("%s %q", t.op, name), t.do(w, name), codes...)
		}
	}
	w.unchanged("bad new names", before)
}

// fineNames are unusual names that are valid.
var fineNames = []string{
	"%2e%2e", "%2f", "...", "..a", "a..", " ", " a", "a ", "a.", "-rf", "~", "$HOME", "*", "a:b", "con", "NUL", "CON.txt", "a'b", `a"b`, "a;b",
	"é", "e\u0301", "Ｆ", "ß", "界", "😀", "A", "a", strings.Repeat("n", 255), strings.Repeat("界", 85), "#", "?", "a|b", "a=b", "a,b", ".hidden",
}

func testFineNames(w *world) {
	w.make(Tree{})
	for i, name := range fineNames {
		w.put(name, fineNames[i])
	}
	for _, name := range fineNames {
		w.has(name, name)
	}
	all, err := list(w.ctx, w.root)
	w.ok("List", err)
	if len(all) != len(fineNames) {
		w.Errorf("%d entries for %d names", len(all), len(fineNames))
	}
	for _, name := range fineNames {
		w.ok("Remove", w.root.Remove(w.ctx, name, vfs.If{}))
		_, err := w.root.Mkdir(w.ctx, name)
		w.ok("Mkdir", err)
		w.ok("Rename", w.root.Rename(w.ctx, name, w.root, "moved", vfs.If{}, vfs.If{}))
		w.ok("Rename back", w.root.Rename(w.ctx, "moved", w.root, name, vfs.If{}, vfs.If{}))
		w.ok("Remove of the directory", w.root.Remove(w.ctx, name, vfs.If{}))
		f, err := w.root.Create(w.ctx, name)
		w.ok("Create", err)
		w.reads(f, "")
		w.ok("Remove of the file", w.root.Remove(w.ctx, name, vfs.If{}))
	}
}
