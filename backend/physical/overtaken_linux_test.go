package physical_test

import (
	"os"
	"testing"

	"golang.org/x/sys/unix"

	"capd/backend/physical"
	"capd/vfs"
)

// overtaken is w in which another program does something once, after all checks and
// before the change.
func (w served) overtaken(other func() error) served {
	done := false
	w.ctx = vfs.OnCommit(w.ctx, func(_ vfs.Effect, change func() (vfs.Effect, error)) (vfs.Effect, error) {
		if !done {
			done = true
			w.ok(other())
		}
		return change()
	})
	return w
}

func TestOvertaken(t *testing.T) {
	both(t, func(t *testing.T, w served) {
		w.write("f", "old")
		late := w.overtaken(func() error { return os.Chmod(w.host("f"), 0o600) })
		w.ok(late.put(w.root, "f", "new", vfs.If{}))
		if fi, err := os.Stat(w.host("f")); err != nil || fi.Mode().Perm() != 0o600 {
			t.Errorf("the mode that another program set is %v, %v", fi.Mode(), err)
		}
		late = w.overtaken(func() error {
			w.ok(os.Remove(w.host("f")))
			return unix.Mkfifo(w.host("f"), 0o600)
		})
		w.is("Remove of what became a FIFO", w.root.Remove(late.ctx, "f", vfs.If{}), vfs.NotRegular)
		if _, err := os.Lstat(w.host("f")); err != nil {
			t.Errorf("the FIFO: %v", err)
		}
	})
}

// TestOvertakenMovesNothing: a source that has changed is not moved, not even for a
// moment.
func TestOvertakenMovesNothing(t *testing.T) {
	w := serve(t, physical.Options{})
	w.write("f", "old")
	moves := 0
	w.store.Meddle(func() { moves++ })
	late := w.overtaken(func() error { return os.WriteFile(w.host("f"), []byte("newer"), 0o644) })
	w.is("Rename", w.root.Rename(late.ctx, "f", w.root, "g", vfs.If{Is: version("old")}, vfs.If{}), vfs.Conflict)
	w.has(w.host("f"), "newer")
	if moves != 0 {
		t.Errorf("it was moved %d times", moves)
	}
}

// TestRenameOverItself: if a file has two names, neither is lost.
func TestRenameOverItself(t *testing.T) {
	both(t, func(t *testing.T, w served) {
		w.write("f", "one file")
		w.ok(os.Link(w.host("f"), w.host("g")))
		w.is("Rename", w.root.Rename(w.ctx, "f", w.root, "g", vfs.If{}, vfs.If{Is: version("one file")}), vfs.Exists)
		w.has(w.host("f"), "one file")
		w.has(w.host("g"), "one file")
	})
}

// TestOtherUsers: a new file has the group that its directory gives, and what another
// user staged is not removed.
func TestOtherUsers(t *testing.T) {
	if os.Geteuid() != 0 {
		untried(t, "only root makes files of another user")
		return
	}
	both(t, func(t *testing.T, w served) {
		w.mkdir("d")
		w.ok(os.Chown(w.host("d"), -1, 1235))
		w.ok(os.Chmod(w.host("d"), 0o755|os.ModeSetgid))
		w.ok(w.put(w.sub("d"), "f", "x", vfs.If{}))
		var st unix.Stat_t
		w.ok(unix.Stat(w.host("d/f"), &st))
		if st.Gid != 1235 {
			t.Errorf("the group is %d, want 1235", st.Gid)
		}
		theirs := w.host(".capd-staging-0123456789abcdef0123456789abcdef")
		w.ok(os.Mkdir(theirs, 0o700))
		w.ok(os.Chown(theirs, 1234, 1234))
		open(t, w.dir, physical.Options{})
		if _, err := os.Lstat(theirs); err != nil {
			t.Errorf("swept: %v", err)
		}
	})
}
