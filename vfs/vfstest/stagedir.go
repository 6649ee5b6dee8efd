package vfstest

import (
	"strings"

	"capd/vfs"
)

// stages makes a directory out of sight in d, to be called name. It returns nil if the
// store cannot.
func (w *world) stages(d vfs.Dir, name string) vfs.StagedDir {
	w.Helper()
	s, err := vfs.StageDir(w.ctx, d, name)
	if vfs.CodeOf(err) == vfs.Unsupported {
		return nil
	}
	w.ok("StageDir", err)
	return s
}

// fills makes something of every kind in s.
func (w *world) fills(s vfs.Dir) {
	w.Helper()
	sub, err := s.Mkdir(w.ctx, "sub")
	w.ok("Mkdir in a staged directory", err)
	defer sub.Close()
	_, err = sub.Replace(w.ctx, "deep", strings.NewReader("deep down"), vfs.If{Absent: true})
	w.ok("Replace below a staged directory", err)
	if w.can.installs {
		_, err = vfs.Install(w.ctx, s, "run", strings.NewReader("#!"), true, vfs.If{})
		w.ok("Install in a staged directory", err)
	}
	if w.can.links {
		w.ok("Symlink in a staged directory", vfs.Symlink(w.ctx, sub, "link", "../run"))
	}
}

func testStageDir(w *world) {
	w.make(sample)
	d := w.dir("d")
	s := w.stages(d, "new")
	if s == nil {
		return
	}
	defer s.Close()
	before := w.picture()
	w.fills(s)
	w.unchanged("a directory that is staged", before)
	w.is("Lookup of what is staged", second(d.Lookup(w.ctx, "new")), vfs.NotFound)
	w.ok("Place", s.Place(w.ctx))
	if e := s.Drop(w.ctx); e != (vfs.Effect{}) {
		w.Errorf("Drop of what was placed answers %+v", e)
	}
	w.has("d/new/sub/deep", "deep down")
	if w.can.installs {
		w.executable("a staged file", "d/new/run", true)
	}
	if w.can.links {
		if got, err := w.link("d/new/sub/link").Target(w.ctx); err != nil || got != "../run" {
			w.Errorf("the staged link says %q, %v", got, err)
		}
	}
	_, err := w.dir("d/new/sub").Replace(w.ctx, "deep", strings.NewReader("changed"), vfs.If{}) // it is a directory like any other
	w.ok("Replace in what was placed", err)
	w.has("d/new/sub/deep", "changed")
	for _, name := range []string{"f", "hollow"} {
		w.is("StageDir of what exists", second(vfs.StageDir(w.ctx, w.root, name)), vfs.Exists)
	}
	for _, name := range []string{"", ".", "..", "a/b", "a\nb"} {
		w.is("StageDir of a bad name", second(vfs.StageDir(w.ctx, w.root, name)), vfs.Invalid)
	}
	hollow := w.dir("hollow")
	w.ok("Close", hollow.Close())
	w.is("StageDir in a closed Dir", second(vfs.StageDir(w.ctx, hollow, "x")), vfs.Stale)
}

func testStageDirDropped(w *world) {
	w.make(sample)
	before := w.picture()
	s := w.stages(w.root, "new")
	if s == nil {
		return
	}
	defer s.Close()
	w.fills(s)
	e := s.Drop(w.ctx)
	nodes, bytes := int64(-2), int64(-len("deep down"))
	if w.can.installs {
		nodes, bytes = nodes-1, bytes-2
	}
	if w.can.links {
		nodes--
	}
	if e != (vfs.Effect{Bytes: bytes, Nodes: nodes}) {
		w.Errorf("Drop answers %+v, want %d bytes and %d nodes", e, bytes, nodes)
	}
	if e := s.Drop(w.ctx); e != (vfs.Effect{}) {
		w.Errorf("a second Drop answers %+v", e)
	}
	w.unchanged("a directory that was dropped", before)
	w.is("Place of what was dropped", s.Place(w.ctx), vfs.Stale)

	taken := w.stages(w.root, "taken")
	defer taken.Close()
	w.fills(taken)
	w.put("taken", "by another")
	w.is("Place where something is", taken.Place(w.ctx), vfs.Exists)
	w.ok("Remove", w.root.Remove(w.ctx, "taken", vfs.If{}))
	w.ok("Place once there is nothing", taken.Place(w.ctx))
	w.has("taken/sub/deep", "deep down")
}
