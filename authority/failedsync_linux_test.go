package authority_test

import (
	"crypto/ed25519"
	"os"
	"path/filepath"
	"testing"

	"capd/operator"
	"capd/record"
	"capd/state"
	"capd/tests/slowfs"
	"capd/vfs"
)

// newFailing returns a host, with a record, whose state lies on a disk of which syncs can fail.
func newFailing(t *testing.T) (*lasting, *slowfs.FS) {
	disk := slowfs.Mount(t, slowfs.KeepContents)
	h := &lasting{t: t, tree: t.TempDir(), state: state.Dir(disk.Path), records: true}
	ok(t, os.Chmod(disk.Path, 0o700))
	ok(t, os.MkdirAll(filepath.Join(h.tree, "a/b"), 0o755))
	h.start()
	return h, disk
}

// fail ends h, whose state cannot be written any more, as far as it can be ended, and starts it again on a disk that works.
func (h *lasting) failed(disk *slowfs.FS) {
	h.t.Helper()
	_ = h.Close()
	_ = h.log.Close()
	_ = h.db.Close()
	disk.FailSyncs("")
	h.start()
	ok(h.t, h.Settle(h.t.Context()))
}

// TestFailedSync: after a failed sync of the state nothing is granted or changed, and what was taken away with
// success stays away, at once and after a restart.
func TestFailedSync(t *testing.T) {
	h, disk := newFailing(t)
	defer func() { h.end() }()
	kept := h.grant("kept", "a", operator.Terms{})
	gone := h.grant("gone", "a", operator.Terms{})
	idle := h.grant("idle", "a", operator.Terms{})
	below, _ := h.share(idle, "b")
	locked := h.grant("locked", "a", operator.Terms{})
	_, invited, err := h.Invite(t.Context(), "gone", operator.InviteTerms{})
	ok(t, err)
	h.restart() // now none is resident
	shared, ctl := h.share(kept, "b")
	held := h.dir(gone)

	disk.FailSyncs("state.db-wal")
	_, err = held.Mkdir(t.Context(), "dir")
	is(t, "a change", err, vfs.Internal)
	_, _, err = h.Grant(t.Context(), "more", "a", false)
	is(t, "a grant", err, vfs.Internal)
	_, _, err = h.Share(t.Context(), held)
	is(t, "a share of one", err, vfs.Internal)
	_, err = held.Lookup(t.Context(), "b")
	ok(t, err)
	for _, guest := range []string{"gone", "idle"} {
		_, err = h.Revoke(guest)
		ok(t, err)
	}
	ok(t, ctl.Revoke())
	_, err = h.SetWritable("locked", false)
	ok(t, err)
	taken := func(when string) {
		t.Helper()
		h.restored(when+": what was revoked", gone, vfs.Revoked)
		h.restored(when+": what nobody had used", idle, vfs.Revoked)
		h.restored(when+": a share of it", below, vfs.Revoked)
		h.restored(when+": a share", shared, vfs.Revoked)
		h.restored(when+": what was not", kept, "")
		_, err := h.Petitioner(t.Context(), invited[:])
		is(t, when+": an invitation", err, vfs.Revoked)
		control, err := h.Control(t.Context(), "g5")
		ok(t, err)
		if own, _ := control.Writable(); own {
			t.Errorf("%s: what was locked is not", when)
		}
		control.Release()
		h.states(when, operator.Active, operator.Revoked, operator.Revoked, operator.Revoked, operator.Locked, operator.Revoked)
	}
	taken("before a restart")

	h.failed(disk)
	taken("after it")
	_, err = h.dir(locked).Mkdir(t.Context(), "x")
	is(t, "in what was locked", err, vfs.ReadOnly)
	_, err = h.SetWritable("locked", true)
	ok(t, err)
	h.restart()
	_, err = h.dir(locked).Mkdir(t.Context(), "x")
	ok(t, err)
	key, err := h.state.RecordKey()
	ok(t, err)
	line, err := record.Verifier(key.Public().(ed25519.PublicKey))
	ok(t, err)
	report, err := record.Verify(t.Context(), h.db, record.VerifyOptions{Key: line})
	ok(t, err)
	for _, wrong := range report.Problems {
		t.Error(wrong)
	}
}

// TestFailedDisk: if a revoke can be written nowhere it says so, and holds as long as the host runs.
func TestFailedDisk(t *testing.T) {
	h, disk := newFailing(t)
	defer func() { h.end() }()
	gone := h.grant("gone", "a", operator.Terms{})
	held := h.dir(gone)
	disk.FailSyncs("state.db*")
	_, err := h.Revoke("gone")
	is(t, "a revoke", err, vfs.Internal)
	_, err = held.Lookup(t.Context(), "b")
	is(t, "what is held", err, vfs.Revoked)
	h.restored("before a restart", gone, vfs.Revoked)
	h.failed(disk)
}
