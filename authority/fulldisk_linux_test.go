package authority_test

import (
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"capd/operator"
	"capd/state"
	"capd/tests/scratch"
	"capd/vfs"
)

// With a full disk nothing is granted or shared, and what takes authority away works, and lasts.
func TestFullDisk(t *testing.T) {
	if !scratch.OwnMounts(t) {
		return
	}
	at := t.TempDir()
	ok(t, unix.Mount("none", at, "tmpfs", 0, "size=16m"))
	defer unix.Unmount(at, unix.MNT_DETACH)
	h := &lasting{t: t, tree: t.TempDir(), state: state.Dir(at), records: true}
	ok(t, os.MkdirAll(filepath.Join(h.tree, "a/b"), 0o755))
	h.start()
	defer func() { h.end() }()
	first := h.grant("first", "a", operator.Terms{})
	second := h.grant("second", "a", operator.Terms{})
	shared, ctl := h.share(first, "b")
	locked := h.grant("locked", "a", operator.Terms{})

	scratch.FillDisk(t, filepath.Join(at, "full"))
	// The log may have room for a few more.
	for n := 0; ; n++ {
		_, _, err := h.Grant(t.Context(), "more", "a", false)
		if err != nil {
			is(t, "a grant", err, vfs.Busy)
			break
		}
		if n > 1000 {
			t.Fatal("the disk is not full")
		}
	}
	_, _, err := h.Share(t.Context(), h.dir(first))
	is(t, "a share", err, vfs.Busy)
	_, err = h.dir(first).Mkdir(t.Context(), "dir")
	is(t, "a change of what is stored elsewhere, which cannot be recorded", err, vfs.Busy)
	ok(t, ctl.Revoke())
	_, err = h.Revoke("second")
	ok(t, err)
	_, err = h.SetWritable("locked", false)
	ok(t, err)
	_, _, err = h.Grant(t.Context(), "late", "a", false)
	is(t, "a grant afterwards", err, vfs.Busy)
	_, err = h.SetWritable("locked", true)
	is(t, "unlocking", err, vfs.Busy)
	h.restart()
	h.restored("what was revoked", second, vfs.Revoked)
	h.restored("what was taken back", shared, vfs.Revoked)
	h.restored("what was not", first, "")
	_, err = h.dir(locked).Mkdir(t.Context(), "x")
	is(t, "what was locked", err, vfs.ReadOnly)

	ok(t, os.Remove(filepath.Join(at, "full")))
	h.grant("again", "a", operator.Terms{})
	fi, err := os.Stat(string(h.state.Database()) + ".reserve")
	if ok(t, err); fi.Size() < 4<<20 {
		t.Errorf("%d bytes are kept for the next time", fi.Size())
	}
}
