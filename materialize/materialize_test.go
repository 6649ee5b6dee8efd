package materialize_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"capd/backend/memory"
	"capd/materialize"
	"capd/vfs"
	"capd/vfs/batch"
	"capd/vfs/membrane"
	"capd/vfs/namespace"
)

var sample = tree{
	"a": "file:old", "empty": "file:", "x": "exec:#!", "l": "link:d/e/f", "dangling": "link:nowhere",
	"d": "dir", "d/e": "dir", "d/e/f": "file:deep", "d/up": "link:../a", "d/g": "file:g", "hollow": "dir",
}

func TestNew(t *testing.T) {
	var last materialize.Progress
	w := start(t, sample, materialize.Options{Progress: func(p materialize.Progress) { last = p }})
	if got, want := fmt.Sprint(readHost(t, w.dir)), fmt.Sprint(sample); got != want {
		t.Errorf("the directory holds\n%s\nwant\n%s", got, want)
	}
	skipped(t, w.tree.LeftOut())
	if last.Entries() != int64(len(sample)) || last.Bytes != int64(len("old#!deepg")) {
		t.Errorf("progress ends with %+v", last)
	}
	c, err := w.tree.Changes(t.Context())
	ok(t, err)
	if len(c.List) > 0 || len(c.Skipped) > 0 {
		t.Errorf("untouched it has changes: %+v", c)
	}
	for dir := w.dir; dir != filepath.Dir(w.base); dir = filepath.Dir(dir) {
		info, err := os.Stat(dir)
		ok(t, err)
		if info.Mode().Perm() != 0o700 {
			t.Errorf("others may enter %s: %v", dir, info.Mode())
		}
	}
	ok(t, w.tree.Close())
	if got := readHost(t, w.base); len(got) > 0 {
		t.Errorf("after Close there is %v", got)
	}
	_, err = w.tree.Changes(t.Context())
	is(t, "Changes after Close", err, vfs.Stale)
	_, err = w.tree.Sync(t.Context(), w.journal, materialize.SyncOptions{})
	is(t, "Sync after Close", err, vfs.Stale)
}

// Links that lead out, directly or through others, are not made.
func TestLeftOut(t *testing.T) {
	w := start(t, tree{
		"a": "file:a", "abs": "link:/etc/passwd", "up": "link:../x", "d": "dir", "d/e": "dir", "d/ok": "link:../a", "d/gone": "link:none/../../../x",
		"d/out": "link:../../x", "d/e/top": "link:../..", "d/e/by": "link:top/../..", "round": "link:round",
	}, materialize.Options{})
	skipped(t, w.tree.LeftOut(), "abs", "d/e/by", "d/gone", "d/out", "up")
	got := readHost(t, w.dir)
	for _, path := range []string{"d/ok", "d/e/top", "round"} {
		if got[path] == "" {
			t.Errorf("%s is not there", path)
		}
	}
	if len(got) != 6 {
		t.Errorf("the directory holds %v", got)
	}
	// What was left out stays where it is, and so does the directory that holds it.
	ok(t, os.RemoveAll(w.at("d/e")))
	skipped(t, w.sync(t).Skipped, "d/e")
	left := read(t, w.store.Root())
	if left["d/e/by"] == "" || left["d/e/top"] != "" {
		t.Errorf("the Dir holds %v", left)
	}
}

func TestBounds(t *testing.T) {
	for name, b := range map[string]materialize.Bounds{
		"entries":        {Entries: 10},
		"entries of one": {Entries: 3},
		"bytes":          {Bytes: 9},
		"bytes of one":   {Bytes: 3},
		"depth":          {Depth: 2},
	} {
		t.Run(name, func(t *testing.T) {
			base := t.TempDir()
			_, err := newBase(t, base).New(t.Context(), newStore(t, sample).Root(), materialize.Options{Bounds: b})
			is(t, "New", err, vfs.Limit)
			if got := readHost(t, base); len(got) > 0 {
				t.Errorf("there is %v", got)
			}
		})
	}
	start(t, sample, materialize.Options{Bounds: materialize.Bounds{Entries: 11, Bytes: 10, Depth: 3}})
}

// The bounds also apply to what is synced back.
func TestBoundsOfSync(t *testing.T) {
	for name, grow := range map[string]func(w *work){
		"entries": func(w *work) {
			for i := range 10 {
				w.write(t, fmt.Sprint("n", i), "")
			}
		},
		"bytes": func(w *work) { w.write(t, "n", strings.Repeat("x", 200)) },
		"depth": func(w *work) { w.write(t, "d/e/1/2/3/4", "") },
	} {
		t.Run(name, func(t *testing.T) {
			w := start(t, sample, materialize.Options{Bounds: materialize.Bounds{Entries: 15, Bytes: 100, Depth: 5}})
			grow(w)
			_, err := w.tree.Sync(t.Context(), w.journal, materialize.SyncOptions{})
			is(t, "Sync", err, vfs.Limit)
			w.holds(t, sample)
		})
	}
}

func TestSync(t *testing.T) {
	w := start(t, sample, materialize.Options{})
	w.write(t, "a", "new")
	w.write(t, "n/m/o", "o")
	ok(t, os.Chmod(w.at("d/g"), 0o755))
	ok(t, os.Chmod(w.at("x"), 0o644))
	ok(t, os.Mkdir(w.at("made"), 0o755))
	ok(t, os.RemoveAll(w.at("d/e")))
	ok(t, os.Remove(w.at("empty")))
	w.write(t, "empty/now", "a directory")
	ok(t, os.Remove(w.at("hollow")))
	w.write(t, "hollow", "a file")
	ok(t, os.Remove(w.at("dangling")))

	want := sample.with(tree{
		"a": "file:new", "n": "dir", "n/m": "dir", "n/m/o": "file:o", "d/g": "exec:g", "x": "file:#!", "made": "dir",
		"d/e": "", "d/e/f": "", "empty": "dir", "empty/now": "file:a directory", "hollow": "file:a file", "dangling": "",
	})
	c, err := w.tree.Changes(t.Context())
	ok(t, err)
	r := w.sync(t)
	if len(c.List) != 13 || len(r.Changes) != 13 || len(c.Skipped)+len(r.Skipped) > 0 || r.ID == "" {
		t.Errorf("changes %+v, synced %+v", c, r)
	}
	w.holds(t, want)
	if r := w.sync(t); r.ID != "" || len(r.Changes) > 0 {
		t.Errorf("the second Sync brings back %+v", r)
	}
	w.write(t, "a", "newer")
	ok(t, os.Remove(w.at("empty/now")))
	w.sync(t)
	w.holds(t, want.with(tree{"a": "file:newer", "empty/now": ""}))
}

// A file that is written again with the same content has not changed.
func TestSameContent(t *testing.T) {
	w := start(t, sample, materialize.Options{})
	ok(t, os.Remove(w.at("a")))
	w.write(t, "a", "old")
	if r := w.sync(t); len(r.Changes) > 0 {
		t.Errorf("brings back %+v", r)
	}
}

func TestScope(t *testing.T) {
	w := start(t, sample, materialize.Options{ReadOnly: []string{"d/e", "vendor"}})
	w.write(t, "a", "new")
	w.write(t, "d/g", "new")
	w.write(t, "n/in", "in")
	w.write(t, "n/out", "out")
	w.write(t, "d/e/f", "not to be written")
	w.write(t, "vendor/v", "nor this")
	r, err := w.tree.Sync(t.Context(), w.journal, materialize.SyncOptions{Paths: []string{"d", "n/in"}})
	ok(t, err)
	if len(r.Changes) != 3 {
		t.Errorf("brings back %+v", r.Changes)
	}
	want := sample.with(tree{"d/g": "file:new", "n": "dir", "n/in": "file:in"})
	w.holds(t, want)
	ok(t, os.RemoveAll(w.at("d")))
	r = w.sync(t)
	skipped(t, r.Skipped, "d") // since d/e stays
	w.holds(t, want.with(tree{"a": "file:new", "n/out": "file:out", "d/g": "", "d/up": ""}))
	for _, bad := range []string{"", "/a", "a/../b"} {
		_, err := w.tree.Sync(t.Context(), w.journal, materialize.SyncOptions{Paths: []string{bad}})
		is(t, "Paths "+bad, err, vfs.Invalid)
	}
	r, err = w.tree.Sync(t.Context(), w.journal, materialize.SyncOptions{Paths: []string{}})
	if err != nil || len(r.Changes) > 0 {
		t.Errorf("nothing is brought back of no paths: %+v, %v", r, err)
	}
}

// What was synced back and kept can be undone.
func TestKept(t *testing.T) {
	w := start(t, sample, materialize.Options{})
	w.write(t, "a", "new")
	ok(t, os.Remove(w.at("d/g")))
	r, err := w.tree.Sync(t.Context(), w.journal, materialize.SyncOptions{Keep: true, Name: "n"})
	ok(t, err)
	ok(t, batch.Undo(t.Context(), w.journal, r.ID, w.store.Root()))
	w.holds(t, sample)
}

// A link may lead out of one mount to a place where there is no other mount but where the
// host has something. It is left out.
func TestLeftOutOfItsMount(t *testing.T) {
	ns := namespace.New()
	defer ns.Close()
	ok(t, ns.Mount("project", newStore(t, tree{"d": "dir", "d/beside": "link:../../secret-name-beside/x", "d/tmp": "link:../../tmp/f", "d/up": "link:../f"}).Root(), namespace.Options{}))
	ok(t, ns.Mount("tmp", newStore(t, tree{"f": "file:x"}).Root(), namespace.Options{}))
	root := membrane.Guarded(ns.Root(), nil)
	defer root.Close()
	tr, err := newBase(t, filepath.Join(t.TempDir(), "base")).New(t.Context(), root, materialize.Options{})
	ok(t, err)
	defer tr.Close()
	skipped(t, tr.LeftOut(), "project/d/beside")
	for _, link := range []string{"tmp", "up"} {
		if _, err := os.Readlink(filepath.Join(tr.Path(), "project/d", link)); err != nil {
			t.Error(err)
		}
	}
}

// A revoke ends the copying, and everything later.
func TestRevoked(t *testing.T) {
	gate := membrane.NewGate()
	s := newStore(t, sample)
	d := membrane.Guarded(s.Root(), gate)
	b := newBase(t, t.TempDir())
	tr, err := b.New(t.Context(), d, materialize.Options{})
	ok(t, err)
	defer tr.Close()
	ok(t, os.WriteFile(filepath.Join(tr.Path(), "a"), []byte("new"), 0o600))
	ok(t, gate.Revoke())
	_, err = tr.Sync(t.Context(), memory.New(memory.Limits{}).Root(), materialize.SyncOptions{})
	is(t, "Sync", err, vfs.Revoked)
	holds(t, s.Root(), sample)
	_, err = b.New(t.Context(), d, materialize.Options{})
	is(t, "New", err, vfs.Revoked)
}

func TestCancelled(t *testing.T) {
	base := t.TempDir()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	_, err := newBase(t, base).New(ctx, newStore(t, sample).Root(), materialize.Options{Workers: 1, Progress: func(p materialize.Progress) {
		if p.Entries() == 3 {
			cancel()
		}
	}})
	if !errors.Is(err, context.Canceled) {
		t.Errorf("New: %v, want it cancelled", err)
	}
	if got := readHost(t, base); len(got) > 0 {
		t.Errorf("there is %v", got)
	}
}

// Closing a tree while it is being looked at waits for that.
func TestConcurrent(t *testing.T) {
	w := start(t, sample, materialize.Options{})
	done := make(chan error)
	for range 4 {
		go func() {
			for {
				if _, err := w.tree.Changes(context.Background()); err != nil {
					done <- err
					return
				}
			}
		}()
	}
	time.Sleep(5 * time.Millisecond)
	ok(t, w.tree.Close())
	for range 4 {
		is(t, "Changes", <-done, vfs.Stale)
	}
}

// A tree that somebody removed as a whole removes nothing from the Dir.
func TestRemovedAsAWhole(t *testing.T) {
	w := start(t, sample, materialize.Options{})
	ok(t, os.RemoveAll(w.dir))
	for range 2 {
		_, err := w.tree.Sync(t.Context(), w.journal, materialize.SyncOptions{})
		is(t, "Sync", err, vfs.Stale)
		if strings.Contains(fmt.Sprint(err), w.base) {
			t.Errorf("an error says where the tree is: %v", err)
		}
		if err := os.Mkdir(w.dir, 0o700); err != nil && !errors.Is(err, os.ErrExist) {
			t.Fatal(err)
		}
	}
	w.holds(t, sample)
}
