package tests

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"capd/vfs"
)

// What a guest moves from one mount to another comes back.
func TestUndoMoveBetweenMounts(t *testing.T) {
	h := serve(t)
	ctx := t.Context()
	d := dial(t, h.locator).Dir(ctx)
	for _, way := range [][2]string{{"project/m", "tmp/m"}, {"tmp/n", "project/n"}} {
		_, err := d.Put(ctx, way[0], strings.NewReader("moved"), vfs.If{})
		ok(t, err)
		ok(t, d.Move(ctx, way[0], d, way[1], vfs.If{}, vfs.If{}))
		_, err = d.Undo(ctx, vfs.Undo{Last: 1})
		ok(t, err)
		if b, _, err := d.OpenFile(way[0]).ReadBytes(ctx); string(b) != "moved" {
			t.Errorf("after the undo of a move, %s holds %q, %v", way[0], b, err)
		}
		ok(t, d.Move(ctx, way[0], d, way[1], vfs.If{}, vfs.If{}))
		_, err = d.Put(ctx, way[1], strings.NewReader("other"), vfs.If{})
		ok(t, err)
		page, err := d.History(ctx, vfs.PastQuery{})
		ok(t, err)
		_, err = d.Undo(ctx, vfs.Undo{ID: page.Entries[1].ID})
		is(t, "undo of a move of what was changed since", err, "conflict")
	}
}

// A directory that an undo brought back is the one that was removed, for an undo of what made it.
func TestUndoAfterUndoOfDirectories(t *testing.T) {
	h := serve(t)
	ctx := t.Context()
	d := dial(t, h.locator).Dir(ctx).SubDir("project")
	mkdir := func(path string) {
		t.Helper()
		_, err := d.CreateDir(ctx, path)
		ok(t, err)
	}
	mkdir("made")
	ok(t, d.Remove(ctx, "made", vfs.If{}))
	_, err := d.Undo(ctx, vfs.Undo{Last: 1}) // the removal
	ok(t, err)
	_, err = d.Undo(ctx, vfs.Undo{Last: 1}) // the directory
	ok(t, err)
	if _, err := os.Stat(filepath.Join(h.served, "made")); !os.IsNotExist(err) {
		t.Errorf("the directory is still there: %v", err)
	}
	mkdir("theirs")
	ok(t, os.Remove(filepath.Join(h.served, "theirs")))
	ok(t, os.Mkdir(filepath.Join(h.served, "keeps the inode busy"), 0o755))
	ok(t, os.Mkdir(filepath.Join(h.served, "theirs"), 0o755))
	_, err = d.Undo(ctx, vfs.Undo{Last: 1})
	is(t, "undo of a directory in whose place is another", err, "conflict")
}

// An undo of all since a time does not make again, and undo again, what was undone since.
func TestUndoSinceSkipsWhatIsUndone(t *testing.T) {
	h := serve(t)
	ctx := t.Context()
	d := dial(t, h.locator).Dir(ctx).SubDir("project")
	put := func(path, text string) {
		t.Helper()
		_, err := d.Put(ctx, path, strings.NewReader(text), vfs.If{})
		ok(t, err)
	}
	put("a", "one")
	put("a", "two")
	_, err := d.Undo(ctx, vfs.Undo{SinceMs: 1})
	ok(t, err)
	put("b", "three")
	plan, err := d.Undo(ctx, vfs.Undo{SinceMs: 1, DryRun: true})
	ok(t, err)
	if len(plan.Steps) != 1 || plan.Steps[0].Path != "b" {
		t.Errorf("the undo would do %+v", plan.Steps)
	}
	for range 2 {
		_, err = d.Undo(ctx, vfs.Undo{SinceMs: 1})
	}
	is(t, "undo when all is undone", err, "notFound")
}
