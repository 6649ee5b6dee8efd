package physical_test

import (
	"context"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"

	"capd/backend/physical"
	"capd/vfs"
)

// everyDirUse tries every operation of a held Dir.
func (w served) everyDirUse(d vfs.Dir) map[string]error {
	all := everyChange(w.ctx, d, "name")
	delete(all, "Remove")
	delete(all, "Rename")
	delete(all, "Rename to")
	all["Stat"] = trying(w.ctx, d, func(ctx context.Context) error { _, err := d.Stat(ctx); return err })
	all["Lookup"] = trying(w.ctx, d, func(ctx context.Context) error { _, err := d.Lookup(ctx, "f"); return err })
	for _, err := range d.List(w.ctx) {
		all["List"] = err
		break
	}
	all["Remove"] = d.Remove(w.ctx, "f", vfs.If{})
	all["Rename"] = d.Rename(w.ctx, "f", w.root, "stolen", vfs.If{}, vfs.If{})
	all["Rename into"] = w.root.Rename(w.ctx, "top", d, "f2", vfs.If{}, vfs.If{})
	return all
}

// TestHeldDirectory: whatever happens to the place of a held Dir, it is stale and nothing
// is read or changed anywhere.
func TestHeldDirectory(t *testing.T) {
	for what, change := range map[string]func(w served) error{
		"moved inside": func(w served) error { return os.Rename(w.host("a/held"), w.host("moved")) },
		"moved outside": func(w served) error {
			return os.Rename(w.host("a/held"), w.host("../moved"))
		},
		"moved outside, a link to it in its place": func(w served) error {
			if err := os.Rename(w.host("a/held"), w.host("../moved")); err != nil {
				return err
			}
			return os.Symlink("../../moved", w.host("a/held"))
		},
		"its parent moved outside, a link in its place": func(w served) error {
			if err := os.Rename(w.host("a"), w.host("../a")); err != nil {
				return err
			}
			return os.Symlink("../a", w.host("a"))
		},
		"its parent moved inside, a link in its place": func(w served) error {
			if err := os.Rename(w.host("a"), w.host("b")); err != nil {
				return err
			}
			return os.Symlink("b", w.host("a"))
		},
		"replaced by a link": func(w served) error {
			if err := os.RemoveAll(w.host("a/held")); err != nil {
				return err
			}
			return os.Symlink("../../outside", w.host("a/held"))
		},
		"replaced by a file": func(w served) error {
			if err := os.RemoveAll(w.host("a/held")); err != nil {
				return err
			}
			return os.WriteFile(w.host("a/held"), nil, 0o644)
		},
		"removed": func(w served) error { return os.RemoveAll(w.host("a/held")) },
		"another in its place": func(w served) error {
			if err := os.Rename(w.host("a/held"), w.host("../moved")); err != nil {
				return err
			}
			w.mkdir("a/held")
			w.write("a/held/f", "another")
			return nil
		},
	} {
		t.Run(what, func(t *testing.T) {
			both(t, func(t *testing.T, w served) {
				w.mkdir("a/held/deep")
				w.write("a/held/f", "inside")
				w.write("top", "top")
				w.mkdir("../outside")
				w.write("../outside/f", "outside")
				held, f, deep := w.sub("a/held"), w.file("a/held/f"), w.sub("a/held/deep")
				if _, err := held.Stat(w.ctx); err != nil {
					t.Fatal(err)
				}
				w.ok(change(w))
				for op, err := range w.everyDirUse(held) {
					w.is(op, err, vfs.Stale)
				}
				_, err := deep.Stat(w.ctx)
				w.is("Stat of a Dir below", err, vfs.Stale)
				for op, err := range everyUse(w.ctx, f) {
					w.is(op+" of a File below", err, vfs.Stale)
				}
				w.has(w.host("top"), "top")
				w.has(w.host("../outside/f"), "outside")
				hasNothingElse(t, w.host("../outside"), "f")
			})
		})
	}
}

// TestMadeAgain removes and makes a directory until it has the same inode number, which
// happens at once on most file systems.
func TestMadeAgain(t *testing.T) {
	both(t, func(t *testing.T, w served) {
		number := func() uint64 {
			fi, err := os.Stat(w.host("d"))
			w.ok(err)
			return fi.Sys().(*syscall.Stat_t).Ino
		}
		repeats := 0
		for range 50 {
			w.mkdir("d")
			d, before := w.sub("d"), number()
			w.ok(os.Remove(w.host("d"))) // before anything pins it
			w.mkdir("d")
			if number() == before {
				repeats++
			}
			_, err := d.Lookup(w.ctx, "x")
			w.is("Lookup", err, vfs.Stale)
			w.is("Replace", w.put(d, "x", "x", vfs.If{}), vfs.Stale)
			w.ok(os.Remove(w.host("d")))
		}
		t.Logf("the number was the same %d times in 50", repeats)
	})
}

// TestManyDirectories holds 20,000 Dirs.
func TestManyDirectories(t *testing.T) {
	const many = 20_000
	dir := "/dev/shm/capd-test-" + strconv.Itoa(os.Getpid()) // in memory, where it can be
	if os.Mkdir(dir, 0o700) != nil {
		dir = t.TempDir()
	}
	defer os.RemoveAll(dir)
	for i := range many {
		if err := os.Mkdir(filepath.Join(dir, strconv.Itoa(i)), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for name, o := range modes {
		t.Run(name, func(t *testing.T) {
			o.MaxDescriptors = 300
			s := open(t, dir, o)
			before := descriptors()
			var held []vfs.Dir
			for i := range many {
				n, err := s.Root().Lookup(t.Context(), strconv.Itoa(i))
				if err != nil {
					t.Fatal(err)
				}
				held = append(held, n.(vfs.Dir))
			}
			for round := range 2 {
				for i, d := range held {
					if _, err := d.Stat(t.Context()); err != nil {
						t.Fatalf("round %d, %d: %v", round, i, err)
					}
				}
				if n := descriptors(); n > before+o.MaxDescriptors {
					t.Errorf("%d descriptors before and %d now", before, n)
				}
			}
			kernel := s.Confinement() == "kernel"
			if n := s.Stats().Descriptors; n > o.MaxDescriptors || kernel && n == 0 {
				t.Errorf("%d directories are kept open, want at most %d", n, o.MaxDescriptors)
			}
			if err := s.Close(); err != nil {
				t.Error(err)
			}
			if n := descriptors(); n > before {
				t.Errorf("%d descriptors before and %d after", before, n)
			}
		})
	}
}

func TestConfinement(t *testing.T) {
	both(t, func(t *testing.T, w served) {
		if c := w.store.Confinement(); c != "kernel" && c != "best-effort" {
			t.Errorf("Confinement = %q", c)
		}
	})
	s := open(t, t.TempDir(), physical.Options{Portable: true})
	if c := s.Confinement(); c != "best-effort" {
		t.Errorf("with os.Root it is %q", c)
	}
}

// TestRootRemoved: below a served directory that was removed everything is stale, and
// nothing is notFound.
func TestRootRemoved(t *testing.T) {
	both(t, func(t *testing.T, w served) {
		w.write("f", "inside")
		w.write("g", "inside")
		n, err := w.root.Lookup(w.ctx, "f")
		if err != nil {
			t.Fatal(err)
		}
		defer n.Close()
		if err := os.RemoveAll(w.host("")); err != nil {
			t.Fatal(err)
		}
		_, lookup := w.root.Lookup(w.ctx, "g")
		_, stat := n.Stat(w.ctx)
		_, open := vfs.Open(w.ctx, n.(vfs.File))
		for what, err := range map[string]error{
			"Lookup": lookup, "File.Stat": stat, "File.Open": open, "Remove": w.root.Remove(w.ctx, "g", vfs.If{}),
		} {
			if vfs.CodeOf(err) != vfs.Stale {
				t.Errorf("%s: %v, want stale", what, err)
			}
		}
	})
}
