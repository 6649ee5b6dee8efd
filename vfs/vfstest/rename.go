package vfstest

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"capd/vfs"
)

var renameRules = []rule{
	{"Rename/Moves", writable, testRename},
	{"Rename/Exists", writable, testRenameExists},
	{"Rename/Over", writable, testRenameOver},
	{"Rename/Replaces", writable, testRenameReplaces},
	{"Rename/ReplacesHeld", writable, testRenameReplacesHeld},
	{"Rename/Refused", writable, testRenameRefused},
	{"Rename/SamePlace", writable, testRenameSamePlace},
	{"Rename/OtherStore", writable, testRenameOtherStore},
}

// moves moves a name of the root.
func (w *world) moves(name, dir, newName string) error {
	return w.root.Rename(w.ctx, name, w.dir(dir), newName, vfs.If{}, vfs.If{})
}

func testRename(w *world) {
	w.make(sample)
	w.ok("Rename of a file", w.moves("f", "", "f2"))
	w.has("f2", "the old content")
	w.ok("Rename into another directory", w.moves("x", "d/e", "x2"))
	w.has("d/e/x2", "#!/bin/sh\n")
	w.executable("a file that was moved", "d/e/x2", true)
	w.ok("Rename of a directory", w.moves("d", "hollow", "d2"))
	w.has("hollow/d2/g", "below")
	w.has("hollow/d2/e/h", "further below")
	w.ok("Rename up", w.dir("hollow/d2").Rename(w.ctx, "e", w.root, "e", vfs.If{}, vfs.If{}))
	w.has("e/h", "further below")
	for _, name := range []string{"f", "x", "d"} {
		_, err := w.root.Lookup(w.ctx, name)
		w.is("Lookup at the old place", err, vfs.NotFound)
	}
	if !w.s.NoLinks {
		w.ok("Rename of a link", w.moves("up", "e", "up2"))
		target, err := w.link("e/up2").Target(w.ctx)
		if err != nil || target != "../outside" {
			w.Errorf("the target of a link that was moved is %q, %v", target, err)
		}
	}
}

func testRenameExists(w *world) {
	w.make(sample)
	before := w.picture()
	names := []string{"f", "x", "d", "hollow"}
	if !w.s.NoLinks {
		names = append(names, "l", "nowhere")
	}
	for _, from := range names {
		for _, to := range names {
			if from != to {
				w.is(fmt.Sprintf("Rename %s to %s", from, to), w.moves(from, "", to), vfs.Exists)
			}
		}
	}
	w.unchanged("Rename to what exists", before)
}

func testRenameOver(w *world) {
	w.make(sample)
	over := func(from, to, version string) error {
		return w.root.Rename(w.ctx, from, w.root, to, vfs.If{}, vfs.If{Is: sum(version)})
	}
	before := w.picture()
	w.is("Rename over another version", over("f", "x", "something else"), vfs.Conflict)
	w.is("Rename of a directory over a file", over("hollow", "x", sample["x"].Data), vfs.Exists)
	w.is("Rename over a directory", over("f", "hollow", ""), vfs.Exists)
	w.is("Rename over what is gone", over("f", "missing", "x"), vfs.Conflict)
	w.is("Rename of nothing", over("missing", "x", sample["x"].Data), vfs.NotFound)
	if !w.s.NoLinks {
		w.is("Rename over a link", over("f", "l", sample["f"].Data), vfs.Exists)
	}
	w.unchanged("Rename over what may not be", before)

	w.ok("Rename over a file", over("f", "x", sample["x"].Data))
	w.has("x", "the old content")
	_, err := w.root.Lookup(w.ctx, "f")
	w.is("Lookup at the old place", err, vfs.NotFound)
	w.ok("Rename over an empty file", over("x", "empty", ""))
	w.has("empty", "the old content")
}

// testRenameReplaces moves each kind of node over each.
func testRenameReplaces(w *world) {
	over := vfs.If{Over: true}
	sorts := map[string]string{"f": "file", "x": "file", "d": "full", "hollow": "empty"}
	if !w.s.NoLinks {
		sorts["l"], sorts["nowhere"] = "link", "link"
	}
	want := map[string]map[string]vfs.Code{
		"file":  {"file": "", "link": "", "full": vfs.IsDir, "empty": vfs.IsDir},
		"link":  {"file": "", "link": "", "full": vfs.IsDir, "empty": vfs.IsDir},
		"full":  {"file": vfs.NotDir, "link": vfs.NotDir, "full": vfs.NotEmpty, "empty": ""},
		"empty": {"file": vfs.NotDir, "link": vfs.NotDir, "full": vfs.NotEmpty, "empty": ""},
	}
	tree := maps.Clone(sample)
	tree["full/in"], tree["bare"] = Node{Data: "in"}, Node{Dir: true}
	for _, from := range slices.Sorted(maps.Keys(sorts)) {
		for _, to := range append(slices.Sorted(maps.Keys(sorts)), "full", "bare") {
			kind := sorts[to]
			switch {
			case from == to:
				continue
			case kind == "":
				kind = map[string]string{"full": "full", "bare": "empty"}[to]
			}
			what := fmt.Sprintf("Rename of %s over %s", from, to)
			w.make(tree)
			before := w.picture()
			err := w.root.Rename(w.ctx, from, w.root, to, vfs.If{}, over)
			if code := want[sorts[from]][kind]; code != "" {
				w.is(what, err, code)
				w.unchanged(what, before)
				continue
			}
			w.ok(what, err)
			_, gone := w.root.Lookup(w.ctx, from)
			w.is(what+": Lookup at the old place", gone, vfs.NotFound)
			switch from {
			case "f", "x":
				w.has(to, tree[from].Data)
				w.executable(what, to, tree[from].Exec)
			case "d":
				w.has(to+"/e/h", "further below")
			case "hollow":
				if all, err := list(w.ctx, w.dir(to)); err != nil || len(all) > 0 {
					w.Errorf("%s: it holds %v, %v", what, all, err)
				}
			default:
				if target, err := w.link(to).Target(w.ctx); err != nil || target != tree[from].Link {
					w.Errorf("%s: it leads to %q, %v", what, target, err)
				}
			}
		}
	}

	w.make(tree)
	w.ok("Rename to nothing", w.root.Rename(w.ctx, "f", w.root, "new", vfs.If{}, over))
	w.ok("Rename into another directory", w.root.Rename(w.ctx, "new", w.dir("d"), "g", vfs.If{}, over))
	w.has("d/g", "the old content")
	before := w.picture()
	w.ok("Rename to the same place", w.dir("d").Rename(w.ctx, "g", w.dir("d"), "g", vfs.If{}, over))
	w.is("Rename of what is not there", w.root.Rename(w.ctx, "missing", w.root, "x", vfs.If{}, over), vfs.NotFound)
	w.is("Rename over another version", w.root.Rename(w.ctx, "empty", w.root, "x", vfs.If{}, vfs.If{Over: true, Is: sum("else")}), vfs.Conflict)
	w.is("Rename from another version", w.root.Rename(w.ctx, "empty", w.root, "x", vfs.If{Is: sum("else")}, over), vfs.Conflict)
	w.is("Rename to absent that exists", w.root.Rename(w.ctx, "empty", w.root, "x", vfs.If{}, vfs.If{Over: true, Absent: true}), vfs.Exists)
	w.is("Rename of a directory over what is above it", w.dir("d").Rename(w.ctx, "e", w.root, "d", vfs.If{}, over), vfs.NotEmpty)
	w.is("Rename of a directory into itself", w.root.Rename(w.ctx, "d", w.dir("d"), "e", vfs.If{}, over), vfs.Invalid)
	w.unchanged("Rename refused", before)
	w.ok("Rename from its version over a version", w.root.Rename(w.ctx, "empty", w.root, "x", vfs.If{Is: sum("")}, vfs.If{Over: true, Is: sum(sample["x"].Data)}))
	w.has("x", "")
}

// testRenameReplacesHeld holds what is replaced.
func testRenameReplacesHeld(w *world) {
	w.make(sample)
	f, d := w.file("x"), w.dir("hollow")
	over := vfs.If{Over: true}
	w.ok("Rename over a file", w.root.Rename(w.ctx, "f", w.root, "x", vfs.If{}, over))
	w.reads(f, "the old content")
	w.ok("Rename over a directory", w.root.Rename(w.ctx, "d", w.root, "hollow", vfs.If{}, over))
	_, err := d.Lookup(w.ctx, "g")
	w.is("Lookup in a directory that was replaced", err, vfs.Stale)
	_, err = d.Create(w.ctx, "new")
	w.is("Create in a directory that was replaced", err, vfs.Stale)
	if !w.s.NoLinks {
		w.ok("Rename of a link over a file", w.root.Rename(w.ctx, "l", w.root, "x", vfs.If{}, over))
		_, err = readAll(w.ctx, f)
		w.is("reading a File where a link is now", err, vfs.Stale)
	}
}

func testRenameRefused(w *world) {
	w.make(sample)
	before := w.picture()
	w.is("Rename into itself", w.moves("d", "d", "x"), vfs.Invalid)
	w.is("Rename into itself by its own name", w.moves("d", "d", "d"), vfs.Invalid)
	w.is("Rename below itself", w.moves("d", "d/e", "x"), vfs.Invalid)
	w.is("Rename of what is not there", w.moves("missing", "", "y"), vfs.NotFound)
	w.is("Rename of what is not there to itself", w.moves("missing", "", "missing"), vfs.NotFound)
	conditional := func(name string, from, to vfs.If) error {
		return w.root.Rename(w.ctx, name, w.root, "y", from, to)
	}
	w.is("Rename from another version", conditional("f", vfs.If{Is: sum("else")}, vfs.If{}), vfs.Conflict)
	w.is("Rename from absent", conditional("f", vfs.If{Absent: true}, vfs.If{}), vfs.Conflict, vfs.Invalid)
	w.is("Rename of a directory with a version", conditional("d", vfs.If{Is: sum("")}, vfs.If{}), vfs.Invalid)
	w.is("Rename to absent that exists", w.root.Rename(w.ctx, "f", w.root, "x", vfs.If{}, vfs.If{Absent: true}), vfs.Exists)
	w.unchanged("Rename refused", before)

	w.ok("Rename from its version to nothing", conditional("f", vfs.If{Is: sum("the old content")}, vfs.If{Absent: true}))
	w.has("y", "the old content")
}

func testRenameSamePlace(w *world) {
	w.make(sample)
	before := w.picture()
	for _, path := range []string{"f", "d", "hollow"} {
		w.ok("Rename to the same place", w.moves(path, "", path))
	}
	w.ok("Rename to the same place by another Dir", w.dir("d").Rename(w.ctx, "g", w.dir("d"), "g", vfs.If{}, vfs.If{}))
	if !w.s.NoLinks {
		w.ok("Rename of a link to the same place", w.moves("l", "", "l"))
	}
	v := vfs.If{Is: sum("the old content")}
	w.ok("Rename to the same place with its version", w.root.Rename(w.ctx, "f", w.root, "f", v, vfs.If{}))
	w.is("Rename to the same place from another version", w.root.Rename(w.ctx, "f", w.root, "f", vfs.If{Is: sum("else")}, vfs.If{}), vfs.Conflict)
	w.unchanged("Rename to the same place", before)
}

func testRenameOtherStore(w *world) {
	w.make(sample)
	here := w.root
	before := w.picture()
	there := w.s.New(w.T, Tree{"other": {Data: "other"}, "sub": {Dir: true}})
	w.is("Rename into another store", here.Rename(w.ctx, "f", there, "f", vfs.If{}, vfs.If{}), vfs.CrossDevice, vfs.Unsupported)
	// A directory does not move to where other rules apply.
	w.is("Rename of a directory into another store", here.Rename(w.ctx, "d", there, "d", vfs.If{}, vfs.If{}), vfs.CrossDevice, vfs.Unsupported, vfs.Denied)
	w.is("Rename out of another store", there.Rename(w.ctx, "other", here, "o", vfs.If{}, vfs.If{}), vfs.CrossDevice, vfs.Unsupported)
	w.unchanged("Rename into another store", before)
	all, err := list(w.ctx, there)
	w.ok("List", err)
	var names []string
	for _, e := range all {
		names = append(names, e.Name)
	}
	if got := strings.Join(names, " "); got != "other sub" {
		w.Errorf("the other store holds %q after it", got)
	}
}
