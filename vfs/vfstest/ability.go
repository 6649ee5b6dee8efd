package vfstest

import (
	"fmt"
	"io"
	"strings"
	"testing"
	"testing/iotest"

	"capd/vfs"
)

// hostChanges are changes that a store need not support.
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

// Rules for vfs.Symlink, vfs.Install and vfs.StageDir, which are for hosts.
var abilityRules = []rule{
	{"Host/Symlink", local, testSymlink},
	{"Host/Install", local, testInstall},
	{"Host/InstallFailing", local, testInstallFailing},
	{"Host/Closed", local, testAbilitiesClosed},
	{"Host/StageDir", local, testStageDir},
	{"Host/StageDirDropped", local, testStageDirDropped},
	{"Host/Identity", local, testIdentity},
}

// abilities are what a store need not support, as found out by trying.
type abilities struct {
	links    bool // vfs.Symlink works
	installs bool // vfs.Install sets the executable bit
	bits     bool // files have an executable bit
}

// abilities tries a store of its own. A store that installs has executable bits. For
// any other it looks at a file that was made with one.
func (s Store) abilities(t *testing.T) abilities {
	t.Helper()
	root := s.New(t, Tree{"x": {Data: "#!", Exec: true}})
	w := &world{T: t, s: s, ctx: t.Context(), root: root}
	if s.Remote {
		return abilities{bits: true}
	}
	info, err := w.file("x").Stat(w.ctx)
	w.ok("Stat", err)
	can := abilities{bits: info.Exec}
	if s.Immutable {
		return can
	}
	can.links = !s.NoLinks && vfs.CodeOf(vfs.Symlink(w.ctx, root, "l", "x")) != vfs.Unsupported
	can.installs = vfs.CodeOf(w.installs("new", "#!", true, vfs.If{})) != vfs.Unsupported
	can.bits = can.bits || can.installs
	return can
}

// executable checks whether the file at path can be executed. In a store without
// executable bits no file can.
func (w *world) executable(what, path string, want bool) {
	w.Helper()
	if info, err := w.file(path).Stat(w.ctx); err != nil || info.Exec != (want && w.can.bits) {
		w.Errorf("%s: %s is %+v, %v; want it executable: %v", what, path, info, err, want && w.can.bits)
	}
}

func testSymlink(w *world) {
	if !w.can.links {
		w.make(Tree{"f": {}})
		if !w.s.NoLinks {
			w.is("Symlink", vfs.Symlink(w.ctx, w.root, "l", "f"), vfs.Unsupported)
		}
		return
	}
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
	if !w.can.installs {
		before := w.picture()
		w.is("Install", w.installs("f", "x", true, vfs.If{}), vfs.Unsupported)
		w.unchanged("Install, unsupported", before)
		return
	}
	n := 0
	says := func(name, data string, exec bool, c vfs.If) {
		w.Helper()
		n++
		w.ok("Install of "+name, w.installs(name, data, exec, c))
		w.has(name, data)
		w.executable(fmt.Sprintf("the %dth Install", n), name, exec)
	}
	says("new", "#!", true, vfs.If{Absent: true})
	says("plain", "text", false, vfs.If{})
	says("f", "now a script", true, vfs.If{Is: sum("the old content")})
	says("f", "a script", true, vfs.If{})
	says("f", "none any more", false, vfs.If{})
	says("x", "nor this", false, vfs.If{Is: sum(sample["x"].Data)})
	says("empty", "", true, vfs.If{})
	w.put("empty", "still") // Replace keeps it
	w.executable("after a Replace", "empty", true)
}

func testInstallFailing(w *world) {
	if !w.can.installs {
		return
	}
	w.make(sample)
	before := w.picture()
	w.is("Install over another version", w.installs("f", "x", true, vfs.If{Is: sum("else")}), vfs.Conflict)
	w.is("Install where something is", w.installs("f", "x", true, vfs.If{Absent: true}), vfs.Conflict)
	w.is("Install over nothing", w.installs("new", "x", true, vfs.If{Is: sum("x")}), vfs.Conflict)
	w.is("Install over a directory", w.installs("d", "x", true, vfs.If{}), vfs.IsDir)
	if !w.s.NoLinks {
		w.is("Install over a link", w.installs("l", "x", true, vfs.If{}), vfs.NotRegular)
	}
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
	if w.can.links {
		w.is("Symlink in a closed Dir", vfs.Symlink(w.ctx, d, "l", "x"), vfs.Stale)
	}
	if !w.can.installs {
		return
	}
	_, err := vfs.Install(w.ctx, d, "f", strings.NewReader("x"), true, vfs.If{})
	w.is("Install in a closed Dir", err, vfs.Stale)
}
