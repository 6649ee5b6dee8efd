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
	n, _, err := h.Restore(secret)
	ok(t, err)
	defer n.Close()
	shared, ctl, err = h.Share(n)
	ok(t, err)
	return shared, ctl
}

// When a root grant is forgotten its shares are, too, and no index keeps anything of
// them.
func TestForgetWithTheRoot(t *testing.T) {
	h := newHost(t, nil)
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
	for range authority.MaxGone - 1 {
		g, _ := grant(t, h, "gone", "a", false)
		_, err := h.Revoke(g.ID)
		ok(t, err)
	}
	for _, s := range [][]byte{secret, gone, alive, below} {
		_, _, err = h.Restore(s)
		is(t, "one of the last that are remembered", err, vfs.Revoked)
	}
	last, _ := grant(t, h, "gone", "a", false)
	_, err = h.Revoke(last.ID)
	ok(t, err)
	for _, s := range [][]byte{secret, gone, alive, below} {
		_, _, err = h.Restore(s)
		is(t, "one that is forgotten", err, vfs.Denied)
	}
	_, err = h.Meter(g.ID)
	is(t, "what a forgotten one uses", err, vfs.NotFound)
	_, err = h.Revoke("first/1")
	is(t, "a forgotten guest", err, vfs.NotFound)
	if digests, grants, guests := h.Filed(); digests != authority.MaxGone || grants != authority.MaxGone || guests != 1 {
		t.Errorf("filed are %d digests, %d grants and %d guests", digests, grants, guests)
	}
}

// Shares of a tree that was unmounted hold nothing, so they do not count as live shares.
func TestUnmountedSharesDoNotCount(t *testing.T) {
	ns := namespace.New()
	ok(t, ns.Mount("m", memory.New(memory.Limits{}).Root(), namespace.Options{}))
	h := authority.New(ns.Root(), nil, nil)
	defer h.Close()
	_, secret := grant(t, h, "agent", "", false)
	n, _, err := h.Restore(secret)
	ok(t, err)
	defer n.Close()
	m, err := n.(vfs.Dir).Lookup(t.Context(), "m")
	ok(t, err)
	defer m.Close()
	for range meter.GrantLimits()[meter.Shares] {
		_, ctl, err := h.Share(m)
		ok(t, err)
		ctl.Release()
	}
	_, _, err = h.Share(n)
	is(t, "one more", err, vfs.Limit)
	ok(t, ns.Unmount(t.Context(), "m"))
	_, ctl, err := h.Share(n)
	ok(t, err)
	ctl.Release()
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
	for range authority.MaxGone + 1 {
		_, ctl := share(t, h, secret)
		ok(t, ctl.Revoke())
		ctl.Release()
	}
	forgotten := fmt.Sprintf("g%d", len(ids)+1)
	_, err := h.Meter(forgotten)
	is(t, "the first that was revoked", err, vfs.NotFound)
	gs, err := h.Grants(forgotten, 1)
	if ok(t, err); len(gs) != 1 || gs[0].ID != fmt.Sprintf("g%d", len(ids)+2) {
		t.Errorf("after %s come %v", forgotten, gs)
	}
}

// A share's number is not used again, even when the share that had it is forgotten.
func TestSharedNamesAreNotGivenAgain(t *testing.T) {
	h := newHost(t, nil)
	_, secret := grant(t, h, "agent", "a", false)
	for range authority.MaxGone + 1 {
		_, ctl := share(t, h, secret)
		ok(t, ctl.Revoke())
		ctl.Release()
	}
	_, ctl := share(t, h, secret)
	ctl.Release()
	gs, err := h.Grants("", 1<<20)
	ok(t, err)
	if got, want := gs[len(gs)-1].Guest, fmt.Sprintf("agent/%d", authority.MaxGone+2); got != want {
		t.Errorf("the last is called %s, want %s", got, want)
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
	n, _, err := h.Restore(secret)
	ok(t, err)
	defer n.Close()
	_, _, err = h.Share(n)
	is(t, "one more", err, vfs.Limit)
	if got := membrane.MeterOf(n).Used(meter.Shares); got != 0 {
		t.Errorf("%d shares are counted of what was refused", got)
	}
}
