package vfstest

import (
	"io"
	"strings"
	"testing/iotest"

	"capd/vfs"
)

// hostChanges are those of changes that a store need not be able to make.
var hostChanges = []change{
	{"Symlink", true, func(w *world, _ vfs.File, _ vfs.Dir) error { return vfs.Symlink(w.ctx, w.root, "new", "f") }},
	{"Symlink below", true, func(w *world, _ vfs.File, d vfs.Dir) error { return vfs.Symlink(w.ctx, d, "new", "../f") }},
	{"Install of nothing", false, func(w *world, _ vfs.File, _ vfs.Dir) error { return w.installs("new", "#!", true, vfs.If{}) }},
	{"Install over a file", false, func(w *world, _ vfs.File, _ vfs.Dir) error {
		return w.installs("f", "a script, longer than before", true, vfs.If{Is: sum("the old content")})
	}},
	{"Install as it was", false, func(w *world, _ vfs.File, _ vfs.Dir) error {
		return w.installs("f", "the old content", true, vfs.If{})
	}},
}

// What hosts may do with a store; see vfs.Symlink and vfs.Install.
var abilityRules = []rule{
	{"Host/Symlink", able, testSymlink},
	{"Host/Install", able, testInstall},
	{"Host/InstallFailing", able, testInstallFailing},
	{"Host/Closed", able, testAbilitiesClosed},
}

func testSymlink(w *world) {
	w.make(sample)
	for name, target := range map[string]string{
		"to":       "f",
		"nowhere2": "missing",
		"above":    "../../x",
		"odd":      "/a b\\\n\xff",
		"long":     strings.Repeat("x", 1000),
	} {
		w.ok("Symlink", vfs.Symlink(w.ctx, w.root, name, target))
		got, err := w.link(name).Target(w.ctx)
		if err != nil || got != target {
			w.Errorf("a link made to say %s says %s, %v", short(target), short(got), err)
		}
	}
	before := w.picture()
	for _, name := range []string{"f", "d", "hollow", "l", "nowhere", "to"} {
		w.is("Symlink of what exists: "+name, vfs.Symlink(w.ctx, w.root, name, "x"), vfs.Exists)
	}
	for what, target := range map[string]string{"nothing": "", "a NUL": "a\x00b"} {
		w.is("Symlink that says "+what, vfs.Symlink(w.ctx, w.root, "new", target), vfs.Invalid)
	}
	w.is("Symlink that says much", vfs.Symlink(w.ctx, w.root, "new", strings.Repeat("x", vfs.MaxPath+1)), vfs.Limit)
	for _, name := range []string{"", ".", "..", "a/b", "a\x00b", "a\nb", strings.Repeat("x", vfs.MaxName+1)} {
		w.is("Symlink of a bad name", vfs.Symlink(w.ctx, w.root, name, "x"), vfs.Invalid)
	}
	w.unchanged("Symlink, refused", before)
	w.ok("Remove", w.root.Remove(w.ctx, "to", vfs.If{}))
	w.has("f", "the old content")
}

func (w *world) installs(name, data string, exec bool, c vfs.If) error {
	v, err := vfs.Install(w.ctx, w.root, name, strings.NewReader(data), exec, c)
	if err == nil && v != sum(data) {
		w.Errorf("Install of %s answers a version that is not what it wrote", name)
	}
	return err
}

func testInstall(w *world) {
	w.make(sample)
	n := 0
	says := func(name, data string, exec bool, c vfs.If) {
		w.Helper()
		n++
		w.ok("Install of "+name, w.installs(name, data, exec, c))
		w.has(name, data)
		if info, err := w.file(name).Stat(w.ctx); err != nil || info.Exec != exec {
			w.Errorf("%d: %s, made executable %v, is %+v, %v", n, name, exec, info, err)
		}
	}
	says("new", "#!", true, vfs.If{Absent: true})
	says("plain", "text", false, vfs.If{})
	says("f", "now a script", true, vfs.If{Is: sum("the old content")})
	says("f", "a script", true, vfs.If{})
	says("f", "none any more", false, vfs.If{})
	says("x", "nor this", false, vfs.If{Is: sum(sample["x"].Data)})
	says("empty", "", true, vfs.If{})
	w.put("empty", "still") // Replace keeps it
	if info, err := w.file("empty").Stat(w.ctx); err != nil || !info.Exec {
		w.Errorf("after a Replace: %+v, %v", info, err)
	}
}

func testInstallFailing(w *world) {
	w.make(sample)
	before := w.picture()
	w.is("Install over another version", w.installs("f", "x", true, vfs.If{Is: sum("else")}), vfs.Conflict)
	w.is("Install where something is", w.installs("f", "x", true, vfs.If{Absent: true}), vfs.Conflict)
	w.is("Install over nothing", w.installs("new", "x", true, vfs.If{Is: sum("x")}), vfs.Conflict)
	w.is("Install over a directory", w.installs("d", "x", true, vfs.If{}), vfs.IsDir)
	w.is("Install over a link", w.installs("l", "x", true, vfs.If{}), vfs.NotRegular)
	w.is("Install of a bad name", w.installs("a\nb", "x", true, vfs.If{}), vfs.Invalid)
	r := io.MultiReader(strings.NewReader("half"), iotest.ErrReader(vfs.Errorf(vfs.TooLarge, "the reader broke")))
	_, err := vfs.Install(w.ctx, w.root, "f", r, true, vfs.If{})
	w.is("Install of a reader that fails", err, vfs.TooLarge)
	w.unchanged("Install, refused", before)
}

func testAbilitiesClosed(w *world) {
	w.make(Tree{"held/old": {Data: "old"}})
	d := w.dir("held")
	w.ok("Close", d.Close())
	w.is("Symlink in a closed Dir", vfs.Symlink(w.ctx, d, "l", "x"), vfs.Stale)
	_, err := vfs.Install(w.ctx, d, "f", strings.NewReader("x"), true, vfs.If{})
	w.is("Install in a closed Dir", err, vfs.Stale)
}
