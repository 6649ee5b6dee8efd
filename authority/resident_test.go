package authority_test

import (
	"fmt"
	"testing"

	"capd/authority"
	"capd/backend/memory"
	"capd/meter"
	"capd/vfs"
	"capd/vfs/membrane"
	"capd/vfs/namespace"
)

// share shares what secret stands for.
func share(t testing.TB, h *authority.Host, secret []byte) (shared []byte, ctl *membrane.Control) {
	t.Helper()
	n, _, err := h.Restore(t.Context(), secret)
	ok(t, err)
	defer n.Close()
	shared, ctl, err = h.Share(t.Context(), n)
	ok(t, err)
	return shared, ctl
}

// When a root grant is forgotten its shares are, too, and nothing of them is resident.
func TestForgetWithTheRoot(t *testing.T) {
	h := newHost(t, nil)
	h.Remember(50)
	g, secret := grant(t, h, "first", "a", false)
	gone, ctl := share(t, h, secret)
	ok(t, ctl.Revoke())
	ctl.Release()
	alive, ctl := share(t, h, secret)
	ctl.Release()
	below, ctl := share(t, h, alive)
	ctl.Release()
	_, err := h.Revoke(g.ID)
	ok(t, err)
	for _, s := range [][]byte{secret, gone, alive, below} {
		_, _, err = h.Restore(t.Context(), s)
		is(t, "one of the last that are remembered", err, vfs.Revoked)
	}
	for range 200 {
		g, _ := grant(t, h, "gone", "a", false)
		_, err := h.Revoke(g.ID)
		ok(t, err)
	}
	ok(t, h.Forget())
	for _, s := range [][]byte{secret, gone, alive, below} {
		_, _, err = h.Restore(t.Context(), s)
		is(t, "one that is forgotten", err, vfs.Denied)
	}
	_, err = h.Meter(t.Context(), g.ID)
	is(t, "what a forgotten one uses", err, vfs.NotFound)
	_, err = h.Revoke("first/1")
	is(t, "a forgotten guest", err, vfs.NotFound)
	h.WaitForBurials()
	if ids, digests, meters := h.Residents(); ids != 0 || digests != 0 || meters != 0 {
		t.Errorf("resident are %d ids, %d digests and %d meters", ids, digests, meters)
	}
}

// The shares of a tree that was unmounted are there again when it is mounted again, with what was revoked and locked.
func TestUnmountedSharesComeBack(t *testing.T) {
	ns := namespace.New()
	store := memory.New(memory.Limits{})
	_, err := store.Root().Mkdir(t.Context(), "d")
	ok(t, err)
	ok(t, ns.Mount("m", store.Root(), namespace.Options{}))
	h := authority.New(ns.Root(), nil, nil)
	defer h.Close()
	_, secret := grant(t, h, "agent", "m", false)
	n, _, err := h.Restore(t.Context(), secret)
	ok(t, err)
	defer n.Close()
	d, err := n.(vfs.Dir).Lookup(t.Context(), "d")
	ok(t, err)
	defer d.Close()
	var shared [3][]byte
	var ctls [3]*membrane.Control
	for i := range shared {
		shared[i], ctls[i], err = h.Share(t.Context(), d)
		ok(t, err)
		defer ctls[i].Release()
	}
	ok(t, ns.Unmount(t.Context(), "m"))
	for _, s := range shared {
		_, _, err := h.Restore(t.Context(), s)
		is(t, "while it is unmounted", err, vfs.Stale)
	}
	ok(t, ctls[1].Revoke())
	_, err = h.SetWritable("agent/3", false)
	ok(t, err)
	ok(t, ns.Mount("m", store.Root(), namespace.Options{}))
	for i, want := range []struct{ restored, changed vfs.Code }{{"", ""}, {vfs.Revoked, ""}, {"", vfs.ReadOnly}} {
		again, _, err := h.Restore(t.Context(), shared[i])
		is(t, "when it is back", err, want.restored)
		if err != nil {
			continue
		}
		_, err = again.(vfs.Dir).Mkdir(t.Context(), "new")
		is(t, "a change", err, want.changed)
		ok(t, again.Close())
	}
	ok(t, ctls[0].Revoke()) // the control is from before
	_, _, err = h.Restore(t.Context(), shared[0])
	is(t, "taken back by the one who shared it", err, vfs.Revoked)
}

// A list is complete and in order however many grants it has, even when it continues
// after a grant that was forgotten meanwhile.
func TestLongList(t *testing.T) {
	h := newHost(t, nil)
	_, secret := grant(t, h, "agent", "a", false)
	for range 2 * meter.GrantLimits()[meter.Shares] / 3 {
		_, ctl := share(t, h, secret)
		ctl.Release()
	}
	var ids []string
	for after := ""; ; {
		gs, err := h.Grants(after, 100)
		ok(t, err)
		for _, g := range gs {
			ids = append(ids, g.ID)
		}
		if len(gs) < 100 {
			break
		}
		after = ids[len(ids)-1]
	}
	for i, id := range ids {
		if id != fmt.Sprintf("g%d", i+1) {
			t.Fatalf("number %d is %s", i, id)
		}
	}
	if want := 2*meter.GrantLimits()[meter.Shares]/3 + 1; int64(len(ids)) != want {
		t.Errorf("listed are %d grants, want %d", len(ids), want)
	}
	h.Remember(50)
	for range 200 {
		_, ctl := share(t, h, secret)
		ok(t, ctl.Revoke())
		ctl.Release()
	}
	ok(t, h.Forget())
	forgotten := fmt.Sprintf("g%d", len(ids)+1)
	_, err := h.Meter(t.Context(), forgotten)
	is(t, "the first that was revoked", err, vfs.NotFound)
	gs, err := h.Grants(forgotten, 1)
	if ok(t, err); len(gs) != 1 || gs[0].ID <= forgotten {
		t.Errorf("after %s come %v", forgotten, gs)
	}
}

// A share's number is not used again, even when the share that had it is forgotten.
func TestSharedNamesAreNotGivenAgain(t *testing.T) {
	h := newHost(t, nil)
	h.Remember(0)
	_, secret := grant(t, h, "agent", "a", false)
	for range 10 {
		_, ctl := share(t, h, secret)
		ok(t, ctl.Revoke())
		ctl.Release()
	}
	ok(t, h.Forget())
	_, ctl := share(t, h, secret)
	ctl.Release()
	gs, err := h.Grants("", 1<<20)
	ok(t, err)
	if got, want := gs[len(gs)-1].Guest, "agent/11"; got != want || len(gs) != 2 {
		t.Errorf("the last of %d is called %s, want %s", len(gs), got, want)
	}
}

// Shares of shares have a greatest depth, even without a limit on shares.
func TestDeepShares(t *testing.T) {
	h := newHost(t, meter.Limits{meter.Shares: meter.NoLimit, meter.Nodes: meter.NoLimit})
	_, secret := grant(t, h, "agent", "a", false)
	for range meter.MaxDepth {
		shared, ctl := share(t, h, secret)
		defer ctl.Release()
		secret = shared
	}
	n, _, err := h.Restore(t.Context(), secret)
	ok(t, err)
	defer n.Close()
	_, _, err = h.Share(t.Context(), n)
	is(t, "one more", err, vfs.Limit)
	if got := membrane.MeterOf(n).Used(meter.Shares); got != 0 {
		t.Errorf("%d shares are counted of what was refused", got)
	}
}
