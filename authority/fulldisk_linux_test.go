package authority_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"capd/operator"
	"capd/state"
	"capd/vfs"
)

const ownMounts = "CAPD_AUTHORITY_TEST_MOUNTS"

// inOwnMounts runs the calling test again in a mount namespace of its own and reports false; there it reports true.
func inOwnMounts(t *testing.T) bool {
	if os.Getenv(ownMounts) != "" {
		ok(t, unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""))
		return true
	}
	cmd := exec.Command(os.Args[0], "-test.run=^"+t.Name()+"$", "-test.v")
	cmd.Env = append(os.Environ(), ownMounts+"=1")
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNS}
	if os.Geteuid() != 0 {
		cmd.SysProcAttr.Cloneflags |= syscall.CLONE_NEWUSER
		cmd.SysProcAttr.UidMappings = []syscall.SysProcIDMap{{HostID: os.Geteuid(), Size: 1}}
		cmd.SysProcAttr.GidMappings = []syscall.SysProcIDMap{{HostID: os.Getegid(), Size: 1}}
	}
	out, err := cmd.CombinedOutput()
	if err != nil && len(out) == 0 {
		t.Skip("this machine has no mount namespaces for this user:", err)
	}
	if err != nil || !strings.Contains(string(out), "--- PASS: "+t.Name()) {
		t.Errorf("in a mount namespace: %v\n%s", err, out)
	}
	return false
}

// With a full disk nothing is granted or shared, and what takes authority away works, and lasts.
func TestFullDisk(t *testing.T) {
	if !inOwnMounts(t) {
		return
	}
	at := t.TempDir()
	ok(t, unix.Mount("none", at, "tmpfs", 0, "size=12m"))
	defer unix.Unmount(at, unix.MNT_DETACH)
	h := &lasting{t: t, tree: t.TempDir(), state: state.Dir(at)}
	ok(t, os.MkdirAll(filepath.Join(h.tree, "a/b"), 0o755))
	h.start()
	defer func() { h.end() }()
	first := h.grant("first", "a", operator.Terms{})
	second := h.grant("second", "a", operator.Terms{})
	shared, ctl := h.share(first, "b")
	locked := h.grant("locked", "a", operator.Terms{})

	fillDisk(t, filepath.Join(at, "full"))
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
	is(t, "what is stored elsewhere", err, "")
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

// fillDisk fills the filesystem of a new file to the last byte.
func fillDisk(t *testing.T, file string) {
	f, err := os.Create(file)
	ok(t, err)
	defer f.Close()
	for size := 1 << 20; size > 0; size /= 2 {
		for block := make([]byte, size); ; {
			if _, err := f.Write(block); err != nil {
				break
			}
		}
	}
}
