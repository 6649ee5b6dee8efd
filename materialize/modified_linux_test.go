package materialize_test

import (
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"capd/backend/cas"
	"capd/backend/physical"
	"capd/materialize"
	"capd/vfs"
	"capd/vfs/membrane"
)

// TestModificationTimes: the times that make and cargo compare are the same in the tree
// as in its source, for copied and cloned files. A program that sets a time back hides no
// change.
func TestModificationTimes(t *testing.T) {
	dir := t.TempDir()
	store, err := physical.OpenAmbient(dir, physical.Options{})
	ok(t, err)
	defer store.Close()
	ok(t, os.MkdirAll(filepath.Join(dir, "d/e"), 0o700))
	times := map[string]time.Time{}
	for i, path := range []string{"new", "d/old", "d/run", "d/e/f", "d/e", "d"} { // directories last
		if path != "d" && path != "d/e" {
			ok(t, os.WriteFile(filepath.Join(dir, path), []byte(path), 0o700))
		}
		times[path] = time.UnixMilli(1_000_000_000_123 - int64(i)*1000)
		ok(t, os.Chtimes(filepath.Join(dir, path), times[path], times[path]))
	}
	for name, from := range map[string]vfs.Dir{
		"copied": membrane.Guarded(store.Root(), nil),
		"cloned": shared{store.Root(), &atomic.Int64{}},
	} {
		t.Run(name, func(t *testing.T) {
			tr, err := newBase(t, t.TempDir()).New(t.Context(), from, materialize.Options{})
			ok(t, err)
			defer tr.Close()
			for path, want := range times {
				info, err := os.Stat(filepath.Join(tr.Path(), path))
				ok(t, err)
				if !info.ModTime().Equal(want) {
					t.Errorf("%s was modified at %v, and in the tree at %v", path, want.UTC(), info.ModTime().UTC())
				}
			}
			time.Sleep(30 * time.Millisecond) // by now its times vouch for it
			f, err := os.OpenFile(filepath.Join(tr.Path(), "new"), os.O_WRONLY, 0)
			ok(t, err)
			_, err = f.WriteString("mal")
			ok(t, err)
			ok(t, f.Close())
			ok(t, os.Chtimes(f.Name(), times["new"], times["new"]))
			c, err := tr.Changes(t.Context())
			ok(t, err)
			if len(c.List) != 1 || c.List[0].Path != "new" {
				t.Errorf("a file that was written, and its time set back: %+v", c)
			}
		})
	}
}

// TestNoModificationTimes: a store that keeps no times says 0, which is not given to a
// file.
func TestNoModificationTimes(t *testing.T) {
	before := time.Now().Add(-time.Second)
	store, err := cas.OpenAmbient(t.TempDir(), cas.Options{})
	ok(t, err)
	digest, err := cas.Put(t.Context(), store, newStore(t, tree{"a": "file:a"}).Root(), cas.PutOptions{Pin: "t"})
	ok(t, err)
	root, err := cas.Open(t.Context(), store, digest)
	ok(t, err)
	defer root.Close()
	tr, err := newBase(t, t.TempDir()).New(t.Context(), root, materialize.Options{})
	ok(t, err)
	defer tr.Close()
	info, err := os.Stat(filepath.Join(tr.Path(), "a"))
	ok(t, err)
	if info.ModTime().Before(before) {
		t.Errorf("in the tree it was modified at %v", info.ModTime())
	}
}
