package authority_test

import (
	"strings"
	"testing"

	"capd/meter"
	"capd/operator"
	"capd/record"
	"capd/vfs"
	"capd/vfs/vfstest/check"
)

// TestQuotaOutlivesTheHost: what a grant and its shares store counts after a restart, whichever way it was stored, and what is
// removed then gives room back. A host without a record keeps it too.
func TestQuotaOutlivesTheHost(t *testing.T) {
	for what, records := range map[string]bool{"recorded": true, "unrecorded": false} {
		t.Run(what, func(t *testing.T) {
			h := newLasting(t)
			h.records = records
			h.restart()
			testQuotaOutlives(t, h)
		})
	}
}

func testQuotaOutlives(t *testing.T, h *lasting) {
	all := h.grant("agent", "a", operator.Terms{Limits: meter.Limits{meter.StoredNodes: 4, meter.StoredBytes: 30}})
	n := h.dir(all)
	_, share, ctl, err := h.ShareOn(t.Context(), n, operator.ShareTerms{StoredBytes: 10, StoredNodes: 1})
	ok(t, err)
	ctl.Release()
	ok(t, check.Put(t.Context(), n, "mine", "0123456789"))
	_, err = check.FileAt(t, n, "mine").WriteAt(t.Context(), []byte("in place"), 10, vfs.If{})
	ok(t, err)
	ok(t, check.Put(t.Context(), h.dir(share), "shared", "12345"))
	h.uses(all, 23, 2)
	h.uses(share, 5, 1)
	for range 2 {
		h.restart()
		h.uses(share, 5, 1)
		h.uses(all, 23, 2)
		is(t, "beyond the share's bytes", check.Put(t.Context(), h.dir(share), "shared", strings.Repeat("x", 11)), vfs.Quota)
		is(t, "beyond the share's nodes", check.Put(t.Context(), h.dir(share), "another", ""), vfs.Quota)
		is(t, "beyond the grant's bytes", check.Put(t.Context(), h.dir(all), "mine", strings.Repeat("x", 26)), vfs.Quota)
	}
	ok(t, h.dir(share).Remove(t.Context(), "shared", vfs.If{}))
	h.restart()
	h.uses(all, 18, 1)
	h.uses(share, 0, 0)
	ok(t, check.Put(t.Context(), h.dir(share), "another", "12345"))
	ok(t, h.dir(all).Remove(t.Context(), "mine", vfs.If{}))
	ok(t, h.dir(all).Remove(t.Context(), "another", vfs.If{}))                // the share is still charged
	ok(t, check.DirAt(t, h.dir(all), "b").Remove(t.Context(), "f", vfs.If{})) // was there before: no allowance
	h.restart()
	h.uses(all, 0, 0)
	h.uses(share, 5, 1)
}

// uses checks what the grant of a secret has stored, as its meter has it.
func (h *lasting) uses(secret []byte, bytes, nodes int64) {
	h.t.Helper()
	node, m, err := h.Restore(h.t.Context(), secret)
	ok(h.t, err)
	defer node.Close()
	if b, n := m.Used(meter.StoredBytes), m.Used(meter.StoredNodes); b != bytes || n != nodes {
		h.t.Errorf("%d bytes and %d nodes are stored, want %d and %d", b, n, bytes, nodes)
	}
}

// A move between two grants takes from one what it gives to the other, for good.
func TestQuotaOfAMove(t *testing.T) {
	h := newLasting(t)
	h.records = true
	h.restart()
	source, target := h.grant("from", "a", operator.Terms{}), h.grant("to", "a/b", operator.Terms{})
	from, to := h.dir(source), h.dir(target)
	ok(t, check.Put(t.Context(), from, "x", "12345"))
	ok(t, from.Rename(t.Context(), "x", to, "y", vfs.If{}, vfs.If{}))
	h.uses(source, 0, 0)
	h.uses(target, 5, 1)
	h.restart()
	h.uses(source, 0, 0)
	h.uses(target, 5, 1)
}

// What is made out of sight and dropped leaves nothing behind.
func TestQuotaOfWhatIsDropped(t *testing.T) {
	h := newLasting(t)
	h.records = true
	h.restart()
	all := h.grant("agent", "a", operator.Terms{})
	d := h.dir(all)
	s, err := vfs.StageDir(t.Context(), d, "new")
	ok(t, err)
	ok(t, check.Put(t.Context(), s, "x", "12345"))
	h.uses(all, 5, 1)
	s.Drop(t.Context())
	h.uses(all, 0, 0)
	h.restart()
	h.uses(all, 0, 0)
}

// transient are places of which nothing outlives the process.
type transient struct{}

func (transient) Mounted(string) map[string]string       { return nil }
func (transient) Remains(string, map[string]string) bool { return true }
func (transient) Lasting(string) bool                    { return false }

// What a store in memory held counts as long as the host runs, even if the grant is let go meanwhile.
func TestQuotaOfWhatEnds(t *testing.T) {
	h := newLasting(t)
	h.places = transient{}
	h.restart()
	h.KeepResident(4)
	full := h.grant("full", "a", operator.Terms{Limits: meter.Limits{meter.StoredNodes: 1}})
	n, _, err := h.Restore(t.Context(), full)
	ok(t, err)
	ok(t, check.Put(t.Context(), n.(vfs.Dir), "x", "12345"))
	ok(t, n.Close())
	for i := range 20 {
		h.restored("another", h.grant("other"+string(rune('a'+i)), "a", operator.Terms{}), "")
	}
	h.settled()
	if h.resident(full) {
		t.Error("it was not let go")
	}
	is(t, "beyond its nodes", check.Put(t.Context(), h.dir(full), "y", ""), vfs.Quota)
	h.restart()
	h.uses(full, 0, 0)
}

// resident reports whether the grant of a secret is resident.
func (h *lasting) resident(secret []byte) bool {
	n, _, err := h.TryRestore(secret)
	if err == nil {
		n.Close()
	}
	return err == nil
}

// TestSettleCorrectsTheQuota starts a host after another was killed between changes and their outcomes.
func TestSettleCorrectsTheQuota(t *testing.T) {
	was := &record.Was{Size: 3}
	for what, c := range map[string]struct {
		intent       record.Entry
		bytes, nodes int64 // beside the 10 bytes and 2 nodes that are there before
	}{
		"a new file":      {record.Entry{Op: "replace", Path: "f", Version: versionOf("newer"), Size: 5, Bytes: 5, Nodes: 1}, 5, 1},
		"a longer file":   {record.Entry{Op: "replace", Path: "f", Version: versionOf("newer"), Size: 5, Bytes: 2, Was: was}, 2, 0},
		"not done":        {record.Entry{Op: "create", Path: "none", Nodes: 1}, 0, 0},
		"a directory":     {record.Entry{Op: "mkdir", Path: "d", Nodes: 1}, 0, 1},
		"a removal":       {record.Entry{Op: "remove", Path: "gone", Was: was}, -3, -1},
		"it is not known": {record.Entry{Op: "write", Path: "f", Bytes: 5}, 0, 0},
	} {
		t.Run(what, func(t *testing.T) {
			h := newLasting(t)
			h.records = true
			h.restart()
			all := h.grant("agent", "", operator.Terms{})
			share, ctl := h.share(all, "")
			ctl.Release()
			ok(t, check.Put(t.Context(), h.dir(share), "f", "newer"))
			_, err := h.dir(share).Mkdir(t.Context(), "d")
			ok(t, err)
			ok(t, check.Put(t.Context(), check.DirAt(t, check.DirAt(t, h.dir(all), "a"), "b"), "f", "f12345"))
			h.restart()
			c.intent.Grants = []record.Holder{{ID: "g2", Name: "agent/1"}, {ID: "g1", Name: "agent"}}
			ok(t, h.log.Intend(c.intent).Wait())
			h.restart()
			ok(t, h.Settle(t.Context()))
			h.uses(share, 5+c.bytes, 2+c.nodes)
			h.uses(all, 10+c.bytes, 2+c.nodes)
			h.restart()
			ok(t, h.Settle(t.Context()))
			h.uses(all, 10+c.bytes, 2+c.nodes)
		})
	}
}
