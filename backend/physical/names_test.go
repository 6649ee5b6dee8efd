package physical_test

import (
	"context"
	"os"
	"strings"
	"testing"

	"capd/backend/physical"
	"capd/vfs"
)

func TestNamesRefused(t *testing.T) {
	both(t, func(t *testing.T, w served) {
		w.write("f", "inside")
		for _, name := range []string{
			"..", "a/../../x", "/etc/passwd", "", ".", "a\x00b", "a/b", "f/", "./f",
			strings.Repeat("n", 256), strings.Repeat("界", 86),
		} {
			_, err := w.root.Lookup(w.ctx, name)
			w.is("Lookup "+name, err, vfs.Invalid)
			for op, err := range everyChange(w.ctx, w.root, name) {
				w.is(op+" "+name, err, vfs.Invalid)
			}
		}
		for _, name := range []string{`..\x`, "a\u202eb", "\xff", "a\nb", "a\u200bb"} {
			for op, err := range everyChange(w.ctx, w.root, name) {
				if op == "Remove" || op == "Rename" {
					w.is(op+" "+name, err, vfs.NotFound)
				} else {
					w.is(op+" "+name, err, vfs.Invalid)
				}
			}
		}
		w.ok(w.put(w.root, "%2e%2e", "literal", vfs.If{}))
		w.has(w.host("%2e%2e"), "literal")
	})
}

func TestNameNotUTF8(t *testing.T) {
	both(t, func(t *testing.T, w served) {
		w.write("\xff", "raw")
		w.write("a", "")
		if got := names(t, w.root); len(got) != 2 || got[1] != "\xff" {
			t.Errorf("List = %q", got)
		}
		got, err := w.read(w.file("\xff"))
		w.ok(err)
		if got != "raw" {
			t.Errorf("it reads %q", got)
		}
		w.ok(w.put(w.root, "\xff", "again", vfs.If{}))
		w.ok(w.root.Rename(w.ctx, "\xff", w.root, "b", vfs.If{}, vfs.If{}))
		w.has(w.host("b"), "again")
	})
}

func TestDepth(t *testing.T) {
	both(t, func(t *testing.T, w served) {
		before := descriptors()
		d := w.root
		for i := range 5000 {
			next, err := d.Mkdir(w.ctx, "d")
			if err != nil {
				w.is("Mkdir", err, vfs.Limit)
				if i != vfs.MaxDepth {
					t.Errorf("the limit is at %d, want %d", i, vfs.MaxDepth)
				}
				break
			}
			d = next
		}
		if now := descriptors(); now > before+vfs.MaxDepth+1 {
			t.Errorf("%d descriptors before and %d now", before, now)
		}
		w.write("f", "f")
		w.is("Rename", w.root.Rename(w.ctx, "f", d, "f", vfs.If{}, vfs.If{}), vfs.Limit)
		d = w.root
		long := strings.Repeat("n", 255)
		for length := 0; ; length += 256 {
			next, err := d.Mkdir(w.ctx, long)
			if err != nil {
				w.is("Mkdir", err, vfs.Limit)
				if length+255 <= vfs.MaxPath {
					t.Errorf("the limit is at %d bytes, want %d", length+255, vfs.MaxPath)
				}
				break
			}
			d = next
		}
	})
}

func TestStagingIsHidden(t *testing.T) {
	both(t, func(t *testing.T, w served) {
		w.write("f", "inside")
		w.ok(w.put(w.root, "g", "makes a staging directory", vfs.If{}))
		second := open(t, w.dir, physical.Options{}) // beside a live one
		var staging string
		all, err := os.ReadDir(w.dir)
		w.ok(err)
		for _, e := range all {
			if strings.HasPrefix(e.Name(), ".capd-staging-") {
				staging = e.Name()
			}
		}
		if staging == "" {
			t.Fatal("there is no staging directory")
		}
		if fi, err := os.Stat(w.host(staging)); err != nil || fi.Mode().Perm() != 0o700 {
			t.Errorf("the staging directory: %v, %v", fi.Mode(), err)
		}
		for _, root := range []vfs.Dir{w.root, second.Root()} {
			if got := strings.Join(names(t, root), " "); got != "f g" {
				t.Errorf("List = %s", got)
			}
			for _, name := range []string{
				staging, strings.ToUpper(staging), ".capd-staging-", ".capd-\u017ftaging-x", ".capd\u200b-staging-x",
			} {
				_, err := root.Lookup(w.ctx, name)
				w.is("Lookup "+name, err, vfs.NotFound)
				for op, err := range everyChange(w.ctx, root, name) {
					if op == "Remove" || op == "Rename" {
						w.is(op+" "+name, err, vfs.NotFound)
					} else {
						w.is(op+" "+name, err, vfs.Invalid)
					}
				}
			}
		}
		w.ok(second.Close())
		w.ok(w.put(w.root, "g", "the first one still stages", vfs.If{}))
		w.ok(w.store.Close())
		hasNothingElse(t, w.dir, "f", "g")
	})
}

func TestReadOnly(t *testing.T) {
	for name, o := range modes {
		t.Run(name, func(t *testing.T) {
			w := serve(t, o)
			w.write("f", "inside")
			writable := w.root
			w.root = w.store.ReadOnlyRoot()
			f := w.file("f")
			all := everyChange(w.ctx, w.root, "f")
			for op, err := range everyChange(w.ctx, w.root, "..") {
				all[op+" .."] = err
			}
			_, all["WriteAt"] = f.WriteAt(w.ctx, []byte("x"), 0, vfs.If{})
			all["Truncate"] = f.Truncate(w.ctx, 0, vfs.If{})
			_, all["Append"] = vfs.Append(w.ctx, f, []byte("x"), vfs.If{})
			all["Rename into it"] = writable.Rename(w.ctx, "f", w.root, "g", vfs.If{}, vfs.If{})
			all["Rename out of it"] = w.root.Rename(w.ctx, "f", writable, "g", vfs.If{}, vfs.If{})
			for op, err := range all {
				w.is(op, err, vfs.ReadOnly)
			}
			w.has(w.host("f"), "inside")
			hasNothingElse(t, w.dir, "f")
			w.ok(writable.Rename(w.ctx, "f", writable, "g", vfs.If{}, vfs.If{}))
		})
	}
}

func TestHolds(t *testing.T) {
	both(t, func(t *testing.T, w served) {
		w.mkdir("in")
		parent := strings.TrimSuffix(w.dir, "/served")
		w.ok(os.Symlink(w.host("in"), parent+"/link"))
		w.ok(os.Mkdir(parent+"/served-not", 0o755))
		for path, want := range map[string]bool{
			w.dir: true, w.host("in"): true, w.host("in/not/yet/there"): true, parent + "/link": true, parent + "/link/x": true,
			w.host("../served/in"): true, parent: false, parent + "/served-not": false, "/": false, w.host("../x"): false,
		} {
			got, err := w.store.Holds(path)
			w.ok(err)
			if got != want {
				t.Errorf("Holds(%s) = %v", path, got)
			}
		}
	})
}

func TestClose(t *testing.T) {
	both(t, func(t *testing.T, w served) {
		w.write("f", "inside")
		w.mkdir("d")
		f, d := w.file("f"), w.sub("d")
		c, err := vfs.Open(w.ctx, f)
		w.ok(err)
		w.ok(w.root.Close())
		if _, err := d.Stat(w.ctx); err != nil {
			t.Errorf("closing the root closed a Dir below: %v", err)
		}
		w.ok(w.store.Close())
		w.ok(w.store.Close())
		_, err = d.Stat(w.ctx)
		w.is("Stat", err, vfs.Stale)
		_, err = f.ReadAt(w.ctx, make([]byte, 1), 0)
		w.is("ReadAt", err, vfs.Stale)
		_, err = c.ReadAt(make([]byte, 1), 0)
		w.is("ReadAt of a content", err, vfs.Stale)
		w.is("Replace", w.put(w.store.Root(), "f", "x", vfs.If{}), vfs.Stale)
		w.ok(c.Close())
		if n := w.store.Stats(); n != (physical.Stats{}) {
			t.Errorf("after Close: %+v", n)
		}
	})
}

func TestContentsBounded(t *testing.T) {
	for name, o := range modes {
		t.Run(name, func(t *testing.T) {
			o.MaxContents = 3
			w := serve(t, o)
			w.write("f", "inside")
			var open []vfs.Content
			for range 3 {
				c, err := vfs.Open(w.ctx, w.file("f"))
				w.ok(err)
				open = append(open, c)
			}
			_, err := vfs.Open(w.ctx, w.file("f"))
			w.is("Open", err, vfs.Busy)
			for _, c := range open {
				w.ok(c.Close())
			}
			_, err = w.read(w.file("f"))
			w.ok(err)
		})
	}
}

func TestCancelledReplace(t *testing.T) {
	both(t, func(t *testing.T, w served) {
		w.write("f", "old")
		ctx, cancel := context.WithCancel(w.ctx)
		_, err := w.root.Replace(ctx, "f", readerFunc(func(p []byte) (int, error) {
			cancel()
			return len(p), nil
		}), vfs.If{})
		if err != context.Canceled {
			t.Errorf("Replace: %v", err)
		}
		_, err = w.root.Replace(w.ctx, "f", readerFunc(func([]byte) (int, error) { return 0, os.ErrDeadlineExceeded }), vfs.If{})
		if err != os.ErrDeadlineExceeded {
			t.Errorf("Replace with a reader that fails: %v", err)
		}
		w.has(w.host("f"), "old")
		w.ok(w.store.Close())
		hasNothingElse(t, w.dir, "f")
	})
}

type readerFunc func([]byte) (int, error)

func (f readerFunc) Read(p []byte) (int, error) { return f(p) }
