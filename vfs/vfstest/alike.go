package vfstest

import (
	"errors"
	"io"
	"math"
	"strings"

	"capd/vfs"
	"capd/vfs/membrane"
	"capd/vfs/namespace"
)

// Rules that an answer does not reveal which store gave it.
var alikeRules = []rule{
	{"Alike/Words", writable, testWords},
	{"Alike/Reserved", writable, testReserved},
	{"Alike/Removed", writable, testRemovedFile},
	{"Alike/Overtaken", writable, testOvertakenFile},
	{"Alike/ReadOnly", immutable, testReadOnlyWords},
}

// says checks that err is want, words included. The path may differ: a remote store
// puts one before the words.
func (w *world) says(what string, err, want error) {
	w.Helper()
	if err == nil {
		w.Errorf("%s: no error, want %v", what, want)
		return
	}
	got, words := vfs.At("", err).Error(), vfs.At("", want).Error()
	if w.s.Remote && vfs.CodeOf(err) == vfs.CodeOf(want) {
		words = strings.TrimPrefix(words, string(vfs.CodeOf(want)))
		got = got[max(0, len(got)-len(words)):]
	}
	if got != words {
		w.Errorf("%s: %q, want %q", what, got, words)
	}
}

func testWords(w *world) {
	w.make(sample)
	before := w.picture()
	d, f := w.dir("d"), w.file("f")
	another, is := vfs.If{Is: sum("else")}, vfs.If{Is: sum("the old content")}
	absent := vfs.If{Absent: true}
	there, changed, gone := absent.Check(true, vfs.Version{}), another.Check(true, sum("")), is.Check(false, vfs.Version{})
	moves := func(from, to string, ifFrom, ifTo vfs.If) error {
		return w.root.Rename(w.ctx, from, w.root, to, ifFrom, ifTo)
	}
	writes := func(off int64, c vfs.If) error {
		_, err := f.WriteAt(w.ctx, []byte("1234567"), off, c)
		return err
	}
	puts := func(name string, c vfs.If) error {
		_, err := w.root.Replace(w.ctx, name, strings.NewReader("x"), c)
		return err
	}
	look := func(name string) error { _, err := w.root.Lookup(w.ctx, name); return err }
	makes := func(name string) error { _, err := w.root.Mkdir(w.ctx, name); return err }
	type answer struct {
		what string
		err  error
		want error
	}
	answers := []answer{
		{"Lookup of nothing", look("missing"), vfs.NotFound},
		{"Mkdir of what exists", makes("f"), vfs.Exists},
		{"Replace of a directory", puts("d", vfs.If{}), vfs.IsDir},
		{"Replace of what is there, if absent", puts("f", absent), there},
		{"Replace of another version", puts("f", another), changed},
		{"Replace of nothing, if a version", puts("missing", is), gone},
		{"Remove of nothing", w.root.Remove(w.ctx, "missing", vfs.If{}), vfs.NotFound},
		{"Remove of a full directory", w.root.Remove(w.ctx, "d", vfs.If{}), vfs.NotEmpty},
		{"Remove of a directory, if a version", w.root.Remove(w.ctx, "hollow", is), vfs.ErrNoVersion},
		{"Rename of nothing", moves("missing", "new", vfs.If{}, vfs.If{}), vfs.NotFound},
		{"Rename of another version", moves("f", "new", another, vfs.If{}), changed},
		{"Rename of a directory, if a version", moves("d", "new", is, vfs.If{}), vfs.ErrNoVersion},
		{"Rename to what exists", moves("x", "f", vfs.If{}, vfs.If{}), vfs.Exists},
		{"Rename to what exists, if absent", moves("x", "f", vfs.If{}, absent), vfs.Exists},
		{"Rename to another version", moves("x", "f", vfs.If{}, another), changed},
		{"Rename to nothing, if a version", moves("x", "new", vfs.If{}, is), gone},
		{"Rename of a directory to a file", moves("d", "f", vfs.If{}, vfs.If{}), vfs.Exists},
		{"Rename of a directory to a file's version", moves("d", "f", vfs.If{}, is), vfs.Exists},
		{"Rename to a directory, if a version", moves("f", "d", vfs.If{}, is), vfs.Exists},
		{"Rename to the same place, if absent", moves("f", "f", vfs.If{}, absent), there},
		{"Rename to the same place, if another version", moves("f", "f", vfs.If{}, another), changed},
		{"Rename into itself", d.Rename(w.ctx, "e", w.dir("d/e"), "e", vfs.If{}, vfs.If{}), vfs.ErrIntoItself},
		{"Rename below itself", w.root.Rename(w.ctx, "d", w.dir("d/e"), "new", vfs.If{}, vfs.If{}), vfs.ErrIntoItself},
		{"WriteAt if absent", writes(0, absent), there},
		{"WriteAt of another version", writes(0, another), changed},
		{"Truncate if absent", f.Truncate(w.ctx, 1, absent), there},
		{"Truncate of another version", f.Truncate(w.ctx, 1, another), changed},
	}
	if !w.s.Remote { // no such number is sent
		answers = append(answers,
			answer{"WriteAt below 0", writes(-1, vfs.If{}), vfs.ErrOffset},
			answer{"Truncate below 0", f.Truncate(w.ctx, -1, vfs.If{}), vfs.ErrOffset})
	}
	answers = append(answers, answer{"WriteAt past all files", writes(math.MaxInt64, vfs.If{}), vfs.ErrOffset})
	if !w.s.NoLinks {
		answers = append(answers,
			answer{"Replace of a link", puts("l", vfs.If{}), vfs.NotRegular},
			answer{"Remove of a link, if a version", w.root.Remove(w.ctx, "l", is), vfs.ErrNoVersion},
			answer{"Rename to a link, if a version", moves("f", "l", vfs.If{}, is), vfs.Exists})
	}
	for _, a := range answers {
		w.says(a.what, a.err, a.want)
	}
	w.unchanged("what was refused", before)

	w.ok("Rename to the same place, if its version", moves("f", "f", vfs.If{}, is))
	w.unchanged("a Rename to the same place", before)
}

// testReserved makes nodes with names that some store reserves. The store makes them,
// or refuses them with the common words.
func testReserved(w *world) {
	w.make(sample)
	for _, name := range []string{
		".git", ".GIT", "git~1", ".git.", ".gitmodules", ".capd-staging-", ".capd-staging-0123456789abcdef0123456789abcdef", ".CAPD-staging-x", ".capd",
	} {
		before := w.picture()
		taken := func(what string, err error) {
			w.Helper()
			if err == nil {
				w.ok("Remove of "+name, w.root.Remove(w.ctx, name, vfs.If{}))
			} else {
				w.says(what+" "+name, err, vfs.ErrReserved)
			}
			w.unchanged(what+" "+name, before)
		}
		_, err := w.root.Create(w.ctx, name)
		taken("Create", err)
		_, err = w.root.Mkdir(w.ctx, name)
		taken("Mkdir", err)
		_, err = w.root.Replace(w.ctx, name, strings.NewReader("x"), vfs.If{})
		taken("Replace", err)
		for _, kind := range []string{"f", "hollow", "l"} {
			if kind == "l" && w.s.NoLinks {
				continue
			}
			switch err = w.moves(kind, "", name); {
			case err == nil:
				w.ok("Rename back", w.moves(name, "", kind))
				w.unchanged("Rename and back", before)
			case kind == "f" || vfs.CodeOf(err) != vfs.Denied: // policy may concern what lies below
				w.says("Rename to "+name, err, vfs.ErrReserved)
			}
		}
		w.says("Lookup of "+name, second(w.root.Lookup(w.ctx, name)), vfs.NotFound)
		w.says("Remove of "+name, w.root.Remove(w.ctx, name, vfs.If{}), vfs.NotFound)
	}
}

func second[T any](_ T, err error) error { return err }

// testRemovedFile changes a File that was removed, with and without conditions.
func testRemovedFile(w *world) {
	for _, c := range []vfs.If{{}, {Absent: true}, {Is: sum("else")}, {Is: sum("the old content")}} {
		w.make(sample)
		f := w.file("f")
		w.ok("Remove", w.root.Remove(w.ctx, "f", vfs.If{}))
		before := w.picture()
		_, err := f.WriteAt(w.ctx, []byte("x"), 0, c)
		w.says("WriteAt", err, vfs.NotFound)
		w.says("Truncate", f.Truncate(w.ctx, 3, c), vfs.NotFound)
		if _, err = vfs.Append(w.ctx, f, []byte("x"), c); vfs.CodeOf(err) != vfs.Unsupported {
			w.says("Append", err, vfs.NotFound)
		}
		if _, err = f.Replace(w.ctx, strings.NewReader("x"), c); vfs.CodeOf(err) != vfs.Unsupported {
			w.says("ReplaceFile", err, vfs.NotFound)
		}
		w.unchanged("changes of a File that was removed", before)
	}
}

// meanwhile is a reader that does something before it ends.
type meanwhile struct {
	do   func()
	done bool
}

func (m *meanwhile) Read(p []byte) (int, error) {
	if m.done {
		return 0, errors.New("read after its end")
	}
	m.do()
	m.done = true
	return copy(p, "x"), io.EOF
}

// testOvertakenFile removes a File while it is being replaced through itself.
func testOvertakenFile(w *world) {
	for _, c := range []vfs.If{{}, {Is: sum("the old content")}} {
		for what, way := range map[string]struct {
			do   func()
			want error
		}{
			"removed": {func() { w.ok("Remove", w.root.Remove(w.ctx, "f", vfs.If{})) }, vfs.NotFound},
			"moved":   {func() { w.ok("Rename", w.moves("f", "", "away")) }, vfs.NotFound},
			"replaced by a directory": {func() {
				w.ok("Remove", w.root.Remove(w.ctx, "f", vfs.If{}))
				w.ok("Rename", w.moves("hollow", "", "f"))
			}, vfs.Stale},
		} {
			w.make(sample)
			f := w.file("f")
			var before picture
			_, err := f.Replace(w.ctx, &meanwhile{do: func() {
				way.do()
				before = w.picture()
			}}, c)
			if vfs.CodeOf(err) == vfs.Unsupported {
				w.Skip("these files are not replaced through themselves")
			}
			w.says("ReplaceFile of what is "+what+" meanwhile", err, way.want)
			w.unchanged("ReplaceFile of what is "+what+" meanwhile", before)
		}
	}
}

// testReadOnlyWords makes changes that are also wrong in other ways, in a store that
// never changes and in the same store behind a membrane.
func testReadOnlyWords(w *world) {
	w.make(sample)
	w.refuses("the store")
	if w.s.Remote {
		return
	}
	for _, path := range []string{"", "d", "d/g"} {
		if !vfs.IsImmutable(w.at(path)) {
			w.Errorf("%q does not say that it is immutable", path)
		}
	}
	store := w.root
	w.root = membrane.Guarded(store, nil)
	w.refuses("the store behind a membrane")
	ns := namespace.New()
	defer ns.Close()
	w.ok("Mount", ns.Mount("m", store, namespace.Options{}))
	w.root = membrane.Guarded(ns.Root(), nil)
	w.root = w.dir("m")
	w.refuses("the store, mounted")
}

func (w *world) refuses(who string) {
	w.Helper()
	f, d := w.file("f"), w.dir("d")
	names := append([]string{"new"}, badNewNames...)
	if !w.s.Remote { // the client does not send invalid names
		names = append(names, badNames...)
	}
	for _, name := range names {
		for _, t := range takesName {
			if t.op != "Lookup" {
				w.says(who+": "+t.op+" "+short(name), t.do(w, name), vfs.ReadOnly)
			}
		}
	}
	for _, c := range changes {
		if !c.links || !w.s.NoLinks {
			w.says(who+": "+c.name, c.do(w, f, d), vfs.ReadOnly)
		}
	}
	for _, off := range []int64{-1, math.MaxInt64} {
		if off < 0 && w.s.Remote {
			continue
		}
		_, err := f.WriteAt(w.ctx, []byte("1234567"), off, vfs.If{})
		w.says(who+": WriteAt out of range", err, vfs.ReadOnly)
		w.says(who+": Truncate out of range", f.Truncate(w.ctx, off, vfs.If{Absent: true}), vfs.ReadOnly)
	}
}
