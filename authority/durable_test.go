package authority_test

import (
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"capd/authority"
	"capd/backend/physical"
	"capd/database"
	"capd/meter"
	"capd/operator"
	"capd/record"
	"capd/state"
	"capd/vfs"
	"capd/vfs/membrane"
)

// lasting is a host of a directory that can be started again.
type lasting struct {
	*authority.Host
	t     *testing.T
	tree  string
	state state.Dir
	db    *database.DB
	clock *membrane.Clock // nil for the system's

	places authority.Places // nil for none

	gone    atomic.Int64 // how often Options.Ended was called
	records bool         // whether it keeps a record
	log     *record.Log
}

func newLasting(t *testing.T) *lasting {
	h := &lasting{t: t, tree: t.TempDir(), state: state.Dir(t.TempDir())}
	ok(t, os.MkdirAll(filepath.Join(h.tree, "a/b/c"), 0o755))
	ok(t, os.WriteFile(filepath.Join(h.tree, "a/b/f"), []byte("f"), 0o644))
	h.start()
	t.Cleanup(func() { h.end() })
	return h
}

func (h *lasting) start() {
	h.t.Helper()
	store, err := physical.OpenAmbient(h.tree, physical.Options{})
	ok(h.t, err)
	h.db, err = database.Open(h.state, database.Options{Logf: h.t.Logf})
	ok(h.t, err)
	if h.records {
		key, err := h.state.RecordKey()
		ok(h.t, err)
		h.log, err = record.Open(h.db, record.Options{Key: key, Logf: h.t.Logf})
		ok(h.t, err)
	}
	h.Host = authority.Open(store.Root(), authority.Options{DB: h.db, Clock: h.clock, Record: h.log, Places: h.places, Ended: func() { h.gone.Add(1) }})
}

func (h *lasting) end() {
	h.t.Helper()
	ok(h.t, h.Close())
	if h.log != nil {
		ok(h.t, h.log.Close())
	}
	ok(h.t, h.db.Close())
}

func (h *lasting) restart() {
	h.t.Helper()
	h.end()
	h.start()
}

// dir restores a secret.
func (h *lasting) dir(secret []byte) vfs.Dir {
	h.t.Helper()
	n, _, err := h.Restore(h.t.Context(), secret)
	ok(h.t, err)
	h.t.Cleanup(func() { n.Close() })
	return n.(vfs.Dir)
}

// share shares what is at path below the Dir of a secret.
func (h *lasting) share(secret []byte, path string) ([]byte, *membrane.Control) {
	h.t.Helper()
	var n vfs.Node = h.dir(secret)
	if path != "" {
		var err error
		n, err = vfs.Walk(h.t.Context(), n.(vfs.Dir), path)
		ok(h.t, err)
		defer n.Close()
	}
	shared, ctl, err := h.Share(h.t.Context(), n)
	ok(h.t, err)
	h.t.Cleanup(ctl.Release)
	return shared, ctl
}

func (h *lasting) grant(guest, path string, terms operator.Terms) []byte {
	h.t.Helper()
	_, secret, err := h.GrantOn(h.t.Context(), guest, path, terms)
	ok(h.t, err)
	return secret[:]
}

// restored checks what restoring a secret answers.
func (h *lasting) restored(what string, secret []byte, want vfs.Code) {
	h.t.Helper()
	n, _, err := h.Restore(h.t.Context(), secret)
	if is(h.t, what, err, want); err == nil {
		n.Close()
	}
}

// A locator outlives the host, with the rights, the locks, the limits and the names.
func TestLocatorOutlivesTheHost(t *testing.T) {
	h := newLasting(t)
	all := h.grant("agent", "a", operator.Terms{Limits: meter.Limits{meter.StoredNodes: 7}})
	narrow := h.grant("reader", "a/b", operator.Terms{ReadOnly: true})
	file := h.grant("person:ada", "a/b/f", operator.Terms{})
	share, _ := h.share(all, "b")
	deep, _ := h.share(share, "c")
	sharedFile, _ := h.share(share, "f")
	ctl, err := h.Control(t.Context(), "g1")
	ok(t, err)
	b, err := ctl.Child(t.Context(), "b")
	ok(t, err)
	c, err := b.Child(t.Context(), "c")
	ok(t, err)
	ok(t, c.SetWritable(false))
	ok(t, c.SetReadable(false))
	for _, ctl := range []*membrane.Control{c, b, ctl} {
		ctl.Release()
	}
	before, err := h.Grants("", 100)
	ok(t, err)

	for range 2 {
		h.restart()
		after, err := h.Grants("", 100)
		ok(t, err)
		if len(after) != len(before) {
			t.Fatalf("%d grants, want %d", len(after), len(before))
		}
		for i := range after {
			if after[i] != before[i] {
				t.Errorf("%+v, want %+v", after[i], before[i])
			}
		}
		_, err = h.dir(deep).Mkdir(t.Context(), "x") // first: the grants above become resident with it
		is(t, "a change below a locked route, through a share", err, vfs.ReadOnly)
		_, err = vfs.Walk(t.Context(), h.dir(all), "b/c/x")
		is(t, "a lookup below a route that cannot be read", err, vfs.Denied)
		_, err = h.dir(narrow).Mkdir(t.Context(), "x")
		is(t, "a change through a read-only grant", err, vfs.ReadOnly)
		for _, secret := range [][]byte{file, sharedFile} {
			n, _, err := h.Restore(t.Context(), secret)
			ok(t, err)
			content, err := vfs.Open(t.Context(), n.(vfs.File))
			ok(t, err)
			if content.Size() != 1 {
				t.Errorf("the file has %d bytes", content.Size())
			}
			content.Close()
			n.Close()
		}
		m, err := h.Meter(t.Context(), "g1")
		if ok(t, err); m.Limit(meter.StoredNodes) != 7 {
			t.Errorf("the limit is %d", m.Limit(meter.StoredNodes))
		}
	}
	ctl, err = h.Control(t.Context(), "g1")
	ok(t, err)
	defer ctl.Release()
	b, err = ctl.Child(t.Context(), "b")
	ok(t, err)
	defer b.Release()
	c, err = b.Child(t.Context(), "c")
	ok(t, err)
	defer c.Release()
	ok(t, c.SetReadable(true))
	ok(t, c.SetWritable(true))
	h.restart()
	_, err = h.dir(deep).Mkdir(t.Context(), "x")
	is(t, "a change where the lock was undone", err, "")
}

// Whoever revoked it, and whether or not it was in use, what was revoked stays revoked.
func TestRevokedIsRevokedAfterRestart(t *testing.T) {
	h := newLasting(t)
	used, unused := h.grant("used", "a", operator.Terms{}), h.grant("unused", "a", operator.Terms{})
	usedShare, _ := h.share(used, "b")
	unusedShare, _ := h.share(unused, "b")
	taken, ctl := h.share(used, "b/c")
	kept, _ := h.share(used, "b/c")
	below, _ := h.share(taken, "")
	ok(t, ctl.Revoke())
	h.restored("what its sharer took back", taken, vfs.Revoked)
	h.restart()
	h.restored("what its sharer took back", taken, vfs.Revoked)
	h.restored("what was shared from it", below, vfs.Revoked)
	h.restored("another of the same sharer", kept, "")
	h.restored("used", usedShare, "")
	for guest, want := range map[string]int{"used": 1, "unused": 1} {
		n, err := h.Revoke(guest)
		if ok(t, err); n != want {
			t.Errorf("%s: %d were revoked", guest, n)
		}
	}
	for range 2 {
		for what, secret := range map[string][]byte{"used": used, "unused": unused, "a share of used": usedShare, "a share of unused": unusedShare, "another": kept} {
			h.restored(what, secret, vfs.Revoked)
		}
		h.restart()
	}
}

// What was shared below a revocable() gate ends with that gate, also after a restart, when nobody has the gate any more.
func TestRevokerBelowRevocable(t *testing.T) {
	h := newLasting(t)
	d := h.dir(h.grant("agent", "a", operator.Terms{}))
	beside, _ := h.share(h.grant("other", "a", operator.Terms{}), "b")
	r, ctl, err := membrane.RevocableDir(d)
	ok(t, err)
	defer ctl.Release()
	defer r.Close()
	shared, shareCtl, err := h.Share(t.Context(), r)
	ok(t, err)
	defer shareCtl.Release()
	own, ownCtl, err := h.Share(t.Context(), d)
	ok(t, err)
	defer ownCtl.Release()
	ok(t, ctl.Revoke())
	for range 2 {
		h.restored("what was shared below the gate", shared, vfs.Revoked)
		h.restored("what was shared beside it", own, "")
		h.restored("another's", beside, "")
		h.restart()
	}
}

// A directory that was moved away, removed or replaced is stale. It is there again when it is back.
func TestMovedDirectoryIsStale(t *testing.T) {
	h := newLasting(t)
	at := func(path string) string { return filepath.Join(h.tree, path) }
	secret := h.grant("agent", "a/b", operator.Terms{})
	share, _ := h.share(secret, "c")
	file := h.grant("file", "a/b/f", operator.Terms{})
	changes := []struct {
		what  string
		do    func() error
		code  vfs.Code
		share vfs.Code
	}{
		{"moved away", func() error { return os.Rename(at("a/b"), at("old")) }, vfs.Stale, vfs.Stale},
		{"another", func() error { return os.MkdirAll(at("a/b/c"), 0o755) }, vfs.Stale, vfs.Stale},
		{"a file", func() error { return os.Rename(at("a/b"), at("b2")) }, vfs.Stale, vfs.Stale},
		{"a link to it", func() error { return os.Symlink("../old", at("a/b")) }, vfs.Stale, vfs.Stale},
		{"back", func() error {
			if err := os.Remove(at("a/b")); err != nil {
				return err
			}
			return os.Rename(at("old"), at("a/b"))
		}, "", ""},
		{"a part replaced", func() error {
			if err := os.Rename(at("a/b/c"), at("a/b/c2")); err != nil {
				return err
			}
			return os.Mkdir(at("a/b/c"), 0o755)
		}, "", vfs.Stale},
	}
	for _, c := range changes {
		h.end()
		ok(t, c.do())
		h.start()
		h.restored(c.what, secret, c.code)
		h.restored(c.what+": the file in it", file, c.code)
		h.restored(c.what+": a share", share, c.share)
	}

	// An editor replaces a file. That is the same file.
	h.end()
	ok(t, os.WriteFile(at("new"), []byte("edited"), 0o644))
	ok(t, os.Rename(at("new"), at("a/b/f")))
	h.start()
	h.restored("a file that an editor has replaced", file, "")
}

// Of the uses of a grant never more are given than it has, at once or one after another.
func TestUsesAreCounted(t *testing.T) {
	h := newLasting(t)
	const uses = 5
	secret := h.grant("agent", "a", operator.Terms{Uses: uses})
	restored := func(tries int) (n int) {
		var all sync.WaitGroup
		var mu sync.Mutex
		for range tries {
			all.Go(func() {
				node, _, err := h.Restore(t.Context(), secret)
				if err != nil {
					if vfs.CodeOf(err) != vfs.Expired || !strings.Contains(err.Error(), "spent") {
						t.Error(err)
					}
					return
				}
				node.Close()
				mu.Lock()
				defer mu.Unlock()
				n++
			})
		}
		all.Wait()
		return n
	}
	if n := restored(2); n != 2 {
		t.Errorf("%d were restored, want 2", n)
	}
	h.restart()
	if n := restored(10); n != uses-2 {
		t.Errorf("%d more were restored, want %d", n, uses-2)
	}
	h.restart()
	if n := restored(1); n != 0 {
		t.Error("one more than its uses was restored")
	}
}

// The live shares of a grant stay bounded, although those from before a restart hold nothing.
func TestSharesStayBoundedAfterRestart(t *testing.T) {
	h := newLasting(t)
	secret := h.grant("agent", "a", operator.Terms{Limits: meter.Limits{meter.Shares: 3}})
	first, _ := h.share(secret, "b")
	h.share(secret, "b")
	h.restart()
	third, _ := h.share(secret, "b")
	_, _, err := h.Share(t.Context(), h.dir(secret))
	is(t, "a fourth", err, vfs.Limit)
	h.restored("the first", first, "")
	_, err = h.Revoke("agent/3")
	ok(t, err)
	h.restored("the third", third, vfs.Revoked)
	_, ctl, err := h.Share(t.Context(), h.dir(secret))
	ok(t, err)
	ctl.Release()
}
