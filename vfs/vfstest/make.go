package vfstest

import (
	"time"

	"capd/vfs"
)

var makeRules = []rule{
	{"Make/Create", writable, testCreate},
	{"Make/Mkdir", writable, testMkdir},
	{"Make/Exists", writable, testExists},
}

func testCreate(w *world) {
	w.make(sample)
	f, err := w.root.Create(w.ctx, "new")
	w.ok("Create", err)
	w.reads(f, "")
	info, err := f.Stat(w.ctx)
	w.ok("Stat", err)
	if info.Kind != vfs.FileKind || info.Exec {
		w.Errorf("what Create made is %+v", info)
	}
	if d := time.Since(time.UnixMilli(info.ModifiedMs)).Abs(); d > time.Minute {
		w.Errorf("what Create made was modified %v from now", d)
	}
	w.ok("Close", f.Close())
	w.has("new", "")
	if _, err := w.dir("d/e").Create(w.ctx, "new"); err != nil {
		w.Errorf("Create further down: %v", err)
	}
	w.has("d/e/new", "")
}

func testMkdir(w *world) {
	w.make(sample)
	d, err := w.root.Mkdir(w.ctx, "new")
	w.ok("Mkdir", err)
	info, err := d.Stat(w.ctx)
	w.ok("Stat", err)
	if info.Kind != vfs.DirKind {
		w.Errorf("what Mkdir made is %+v", info)
	}
	all, err := list(w.ctx, d)
	w.ok("List", err)
	if len(all) > 0 {
		w.Errorf("a new directory holds %v", all)
	}
	f, err := d.Create(w.ctx, "below")
	w.ok("Create in what Mkdir made", err)
	w.reads(f, "")
	w.has("new/below", "")
}

func testExists(w *world) {
	w.make(sample)
	before := w.picture()
	names := []string{"f", "d", "hollow", "x"}
	if !w.s.NoLinks {
		names = append(names, "l", "up", "nowhere")
	}
	for _, name := range names {
		_, err := w.root.Create(w.ctx, name)
		w.is("Create "+name, err, vfs.Exists)
		_, err = w.root.Mkdir(w.ctx, name)
		w.is("Mkdir "+name, err, vfs.Exists)
	}
	w.unchanged("Create and Mkdir of what exists", before)
}
