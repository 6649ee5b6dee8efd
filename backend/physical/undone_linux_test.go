package physical_test

import (
	"os"
	"testing"

	"capd/backend/physical"
	"capd/vfs"
)

// TestUndone: another program puts a newer file in place between the last check and the
// change. The newer file stays there, nothing else has changed, and the answer says so.
func TestUndone(t *testing.T) {
	const newer = "newer, by another program"
	for name, c := range map[string]struct {
		meddles string // what the other program replaces
		change  func(w served) error
		holds   map[string]string // then, beside the newer file
	}{
		"Replace": {"f", func(w served) error { return w.put(w.root, "f", "mine", vfs.If{Is: version("old")}) }, map[string]string{"g": "source"}},
		"Rename over a version": {"f", func(w served) error {
			return w.root.Rename(w.ctx, "g", w.root, "f", vfs.If{}, vfs.If{Is: version("old")})
		}, map[string]string{"g": "source"}},
		"Rename of a version over another": {"g", func(w served) error {
			return w.root.Rename(w.ctx, "g", w.root, "f", vfs.If{Is: version("source")}, vfs.If{Is: version("old")})
		}, map[string]string{"f": "old"}},
		"Rename of a version": {"f", func(w served) error {
			return w.root.Rename(w.ctx, "f", w.root, "new", vfs.If{Is: version("old")}, vfs.If{})
		}, map[string]string{"g": "source"}},
		"Remove": {"f", func(w served) error { return w.root.Remove(w.ctx, "f", vfs.If{Is: version("old")}) }, map[string]string{"g": "source"}},
	} {
		t.Run(name, func(t *testing.T) {
			w := serve(t, physical.Options{})
			w.write("f", "old")
			w.write("g", "source")
			meddled := false
			w.store.Meddle(func() {
				if !meddled {
					meddled = true
					w.write("../newer", newer)
					w.ok(os.Rename(w.host("../newer"), w.host(c.meddles)))
				}
			})
			w.is(name, c.change(w), vfs.Conflict)
			if !meddled {
				t.Error("the other program did nothing")
			}
			w.has(w.host(c.meddles), newer)
			for path, want := range c.holds {
				w.has(w.host(path), want)
			}
			w.ok(w.store.Close())
			hasNothingElse(t, w.dir, "f", "g")
		})
	}
}

// TestLinkedAtTheLastMoment: another program gives a file a second name outside after all
// checks. The file is not written in place.
func TestLinkedAtTheLastMoment(t *testing.T) {
	both(t, func(t *testing.T, w served) {
		for name, change := range map[string]func(served, vfs.File) error{
			"WriteAt":  func(w served, f vfs.File) error { _, err := f.WriteAt(w.ctx, []byte("x"), 0, vfs.If{}); return err },
			"Append":   func(w served, f vfs.File) error { _, err := vfs.Append(w.ctx, f, []byte("x"), vfs.If{}); return err },
			"Truncate": func(w served, f vfs.File) error { return f.Truncate(w.ctx, 1, vfs.If{}) },
		} {
			w.write(name, "inside")
			outside := w.host("../" + name)
			linking := w
			linking.ctx = vfs.OnCommit(w.ctx, func(_ vfs.Effect, change func() (vfs.Effect, error)) (vfs.Effect, error) {
				w.ok(os.Link(w.host(name), outside))
				return change()
			})
			w.is(name, change(linking, w.file(name)), vfs.Denied)
			w.has(outside, "inside")
		}
	})
}

// TestForgedTime: a file that was written a moment ago is identified only by its content,
// whatever time another program sets.
func TestForgedTime(t *testing.T) {
	w := serve(t, physical.Options{})
	w.write("f", "old")
	w.store.Meddle(func() {
		fi, err := os.Stat(w.host("f"))
		if err != nil {
			return // it is moved aside already
		}
		w.ok(os.WriteFile(w.host("f"), []byte("new"), 0o644))
		w.ok(os.Chtimes(w.host("f"), fi.ModTime(), fi.ModTime()))
	})
	w.is("Remove", w.root.Remove(w.ctx, "f", vfs.If{Is: version("old")}), vfs.Conflict)
	w.has(w.host("f"), "new")
}
