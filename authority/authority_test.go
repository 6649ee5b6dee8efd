package authority_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"capd/authority"
	"capd/backend/memory"
	"capd/meter"
	"capd/operator"
	"capd/vfs"
	"capd/vfs/membrane"
	"capd/vfs/vfstest/check"
)

var ok, is = check.OK, check.Is

func newHost(t testing.TB, limits meter.Limits) *authority.Host {
	t.Helper()
	root := memory.New(memory.Limits{}).Root()
	for _, name := range []string{"a", "b"} {
		_, err := root.Mkdir(context.Background(), name)
		ok(t, err)
	}
	_, err := root.Replace(context.Background(), "f", strings.NewReader("f"), vfs.If{})
	ok(t, err)
	h := authority.New(root, nil, limits)
	t.Cleanup(func() { h.Close() })
	return h
}

func grant(t testing.TB, h *authority.Host, guest, path string, readOnly bool) (operator.Grant, []byte) {
	t.Helper()
	g, secret, err := h.Grant(context.Background(), guest, path, readOnly)
	ok(t, err)
	return g, secret[:]
}

func TestGrants(t *testing.T) {
	h := newHost(t, nil)
	g, secret := grant(t, h, "agent", "a", true)
	if g != (operator.Grant{Guest: "agent", Subject: "agent-run:agent", Source: operator.ByOperator, ID: "g1", Path: "a", Mode: operator.ReadOnly, State: operator.Active, Rights: membrane.AllRights &^ membrane.ChangeRights}) {
		t.Errorf("granted %+v", g)
	}
	n, _, err := h.Restore(t.Context(), secret)
	ok(t, err)
	_, err = n.(vfs.Dir).Create(t.Context(), "x")
	is(t, "a change through a read-only grant", err, vfs.ReadOnly)
	ok(t, n.Close())
	ok(t, n.Close())
	n, _, err = h.Restore(t.Context(), secret) // closing one reference leaves the others open
	ok(t, err)
	_, err = n.Stat(t.Context())
	ok(t, err)
	all, err := h.Grants("", 1<<20)
	ok(t, err)
	gs, err := h.Grants(all[len(all)-1].ID, 1<<20)
	ok(t, err)
	if len(gs) != 0 {
		t.Errorf("after the last grant there are %v", gs)
	}
	_, err = h.Grants("g7", 1<<20)
	is(t, "grants after one that there never was", err, vfs.NotFound)
	for _, id := range []string{"nonsense", "1", "g", "gg1", "g-1", "g99999999999999999999"} {
		_, err = h.Grants(id, 1<<20)
		is(t, "grants after what is no id", err, vfs.Invalid)
	}
	_, err = h.Meter(t.Context(), "g7")
	is(t, "the meter of one that is not there", err, vfs.NotFound)
	for _, path := range []string{"../a", "/a", "a/", "missing"} {
		_, _, err := h.Grant(t.Context(), "x", path, false)
		if code := vfs.CodeOf(err); code != vfs.Invalid && code != vfs.NotFound {
			t.Errorf("a grant of %q: %v", path, err)
		}
	}
	for _, guest := range []string{"", "a/1", "g12", "a b", "é", strings.Repeat("x", 65)} {
		_, _, err := h.Grant(t.Context(), guest, "", false)
		is(t, "a guest called "+guest, err, vfs.Invalid)
	}
}

// Each root grant has its own meter. What is shared from it counts in a part of that
// meter.
func TestMeters(t *testing.T) {
	h := newHost(t, meter.Limits{meter.StoredNodes: 2})
	_, one := grant(t, h, "one", "", false)
	_, two := grant(t, h, "two", "", false)
	n, _, err := h.Restore(t.Context(), one)
	ok(t, err)
	shared, ctl, err := h.Share(t.Context(), n)
	ok(t, err)
	defer ctl.Release()
	m, _, err := h.Restore(t.Context(), shared)
	ok(t, err)
	for i, d := range []vfs.Node{m, n} {
		_, err := d.(vfs.Dir).Create(t.Context(), fmt.Sprint(i))
		ok(t, err)
		_, err = m.(vfs.Dir).Create(t.Context(), "more")
		is(t, "more than the share's part", err, vfs.Quota)
	}
	_, err = n.(vfs.Dir).Create(t.Context(), "more")
	is(t, "a third node", err, vfs.Quota)
	if of := nodes(t, h, "g1"); of != 2 {
		t.Errorf("the grant uses %d nodes", of)
	}
	if of := nodes(t, h, "g3"); of != 1 {
		t.Errorf("what was shared from it uses %d nodes", of)
	}
	n, _, err = h.Restore(t.Context(), two)
	ok(t, err)
	_, err = n.(vfs.Dir).Create(t.Context(), "more")
	is(t, "the other's first", err, "")
}

// nodes returns how many stored nodes the grant with that id uses.
func nodes(t *testing.T, h *authority.Host, id string) int64 {
	t.Helper()
	m, err := h.Meter(t.Context(), id)
	ok(t, err)
	return m.Used(meter.StoredNodes)
}

// The bound on shares holds for the grant from which all of them come. Sharing a share
// does not get around it.
func TestSharesAreBounded(t *testing.T) {
	h := newHost(t, nil)
	_, secret := grant(t, h, "agent", "a", false)
	_, other := grant(t, h, "other", "a", false)
	share := func(secret []byte) (shared []byte, ctl *membrane.Control, err error) {
		n, _, err := h.Restore(t.Context(), secret)
		ok(t, err)
		defer n.Close()
		return h.Share(t.Context(), n)
	}
	all := 0
	var last *membrane.Control
	shareAll := func(from []byte) (first []byte) {
		for {
			shared, ctl, err := share(from)
			if err != nil {
				is(t, "one more", err, vfs.Limit)
				return first
			}
			defer ctl.Release()
			if all++; first == nil {
				first = shared
			}
			last = ctl
		}
	}
	below, ctl, err := share(secret) // its giver keeps some of the allowance
	ok(t, err)
	defer ctl.Release()
	shareAll(shareAll(below))
	shareAll(secret)
	if want := int(meter.GrantLimits()[meter.Shares]) - 1; all != want {
		t.Errorf("%d shares beside the first, want %d", all, want)
	}
	for what, s := range map[string][]byte{"of the grant": secret, "of a share": below} {
		_, _, err := share(s)
		is(t, "one more "+what, err, vfs.Limit)
	}
	_, ctl, err = share(other)
	ok(t, err)
	ctl.Release()
	ok(t, last.Revoke())
	_, ctl, err = share(secret)
	ok(t, err)
	ctl.Release()
}

// The shares of all grants of one guest are numbered in one series.
func TestSharedNames(t *testing.T) {
	h := newHost(t, nil)
	for range 2 {
		_, secret := grant(t, h, "agent", "", false)
		n, _, err := h.Restore(t.Context(), secret)
		ok(t, err)
		for range 2 {
			_, ctl, err := h.Share(t.Context(), n)
			ok(t, err)
			ctl.Release()
		}
	}
	gs, err := h.Grants("", 1<<20)
	ok(t, err)
	var names []string
	for _, g := range gs {
		names = append(names, g.Guest)
	}
	if got := strings.Join(names, " "); got != "agent agent/1 agent/2 agent agent/3 agent/4" {
		t.Errorf("the names are %q", got)
	}
	n, err := h.Revoke("agent/3")
	if ok(t, err); n != 1 {
		t.Errorf("Revoke of a share counts %d", n)
	}
	n, err = h.Revoke("agent")
	if ok(t, err); n != 2 {
		t.Errorf("Revoke of a guest counts %d", n)
	}
	n, err = h.Revoke("agent")
	if ok(t, err); n != 0 {
		t.Errorf("Revoke of the revoked counts %d", n)
	}
	_, err = h.SetWritable("agent", true)
	is(t, "SetWritable of the revoked", err, vfs.Revoked)
	gs, err = h.Grants("", 1<<20)
	ok(t, err)
	for _, g := range gs {
		if g.State != operator.Revoked {
			t.Errorf("%s is %s", g.Guest, g.State)
		}
	}
}

// Revoked grants are remembered, but only a limited number of them.
func TestForget(t *testing.T) {
	h := newHost(t, nil)
	h.Remember(50)
	_, kept := grant(t, h, "kept", "", false)
	var first, last []byte
	for i := range 200 {
		g, secret := grant(t, h, "gone", "a", false)
		if i == 0 {
			first = secret
		}
		last = secret
		_, err := h.Revoke(g.ID)
		ok(t, err)
	}
	ok(t, h.Forget())
	_, _, err := h.Restore(t.Context(), first)
	is(t, "one that is forgotten", err, vfs.Denied)
	_, _, err = h.Restore(t.Context(), last)
	is(t, "one that is remembered", err, vfs.Revoked)
	_, _, err = h.Restore(t.Context(), kept)
	ok(t, err)
	gs, err := h.Grants("", 1<<20)
	if ok(t, err); len(gs) > 2*50+1 {
		t.Errorf("%d grants are remembered", len(gs))
	}
}

// A guest that shares and takes back again and again makes the host forget only its own
// shares.
func TestForgetOnlyOnesOwn(t *testing.T) {
	h := newHost(t, nil)
	h.Remember(50)
	gone := func(secret []byte) (shared []byte) {
		shared, ctl := share(t, h, secret)
		ok(t, ctl.Revoke())
		ctl.Release()
		return shared
	}
	_, quiet := grant(t, h, "quiet", "a", false)
	_, busy := grant(t, h, "busy", "a", false)
	remembered := gone(quiet)
	first := gone(busy)
	for range 200 {
		gone(busy)
	}
	ok(t, h.Forget())
	_, _, err := h.Restore(t.Context(), first)
	is(t, "the busy one's first", err, vfs.Denied)
	_, _, err = h.Restore(t.Context(), remembered)
	is(t, "another's", err, vfs.Revoked)
}

// A revoked grant holds nothing, even if nobody uses it.
func TestRevokedHoldsNothing(t *testing.T) {
	h := newHost(t, nil)
	g, secret := grant(t, h, "agent", "a", false)
	m, err := h.Meter(t.Context(), g.ID)
	ok(t, err)
	before := m.Used(meter.Nodes)
	n, _, err := h.Restore(t.Context(), secret)
	ok(t, err)
	for range 10 {
		_, ctl, err := h.Share(t.Context(), n)
		ok(t, err)
		ok(t, ctl.Revoke())
		ctl.Release()
	}
	ok(t, n.Close())
	_, err = h.Revoke("agent")
	ok(t, err)
	h.WaitForBurials()
	if after := m.Used(meter.Nodes); after != 0 || before == 0 {
		t.Errorf("open before: %d, after: %d", before, after)
	}
	if parts := h.Meters().All().Parts(); len(parts) != 0 {
		t.Errorf("%d meters are left", len(parts))
	}
	_, err = h.Meter(t.Context(), g.ID)
	is(t, "the meter of what was revoked", err, vfs.Revoked)
	_, err = h.SetLimits("agent", meter.Limits{meter.Nodes: 1})
	is(t, "limits for what was revoked", err, vfs.Revoked)
	ok(t, h.Close())
	_, _, err = h.Grant(context.Background(), "late", "a", false)
	is(t, "a grant of a closed host", err, vfs.Stale)
}

// A grant's own terms override the host's defaults, and can be changed.
func TestGrantOn(t *testing.T) {
	h := newHost(t, meter.Limits{meter.StoredNodes: 5, meter.StoredBytes: 50})
	_, secret, err := h.GrantOn(t.Context(), "g", "", operator.Terms{Limits: meter.Limits{meter.StoredNodes: 1, meter.StoredBytes: 10}})
	if err != nil {
		t.Fatal(err)
	}
	n, _, err := h.Restore(t.Context(), secret[:])
	if err != nil {
		t.Fatal(err)
	}
	defer n.Close()
	d := n.(vfs.Dir)
	if _, err := d.Mkdir(t.Context(), "one"); err != nil {
		t.Error(err)
	}
	if _, err := d.Mkdir(t.Context(), "two"); vfs.CodeOf(err) != vfs.Quota {
		t.Errorf("a node more than the terms allow: %v, want quota", err)
	}
	_, err = d.Replace(t.Context(), "f", strings.NewReader(strings.Repeat("x", 11)), vfs.If{}) // f had 1 byte
	ok(t, err)
	_, err = d.Replace(t.Context(), "f", strings.NewReader(strings.Repeat("x", 12)), vfs.If{})
	is(t, "a byte more than the terms allow", err, vfs.Quota)
	set, err := h.SetLimits("g", meter.Limits{meter.StoredBytes: 11})
	if ok(t, err); set != 1 {
		t.Errorf("limits were set of %d grants", set)
	}
	_, err = d.Replace(t.Context(), "f", strings.NewReader(strings.Repeat("x", 12)), vfs.If{})
	ok(t, err)
	_, err = d.Mkdir(t.Context(), "two")
	is(t, "what was not changed", err, vfs.Quota)
	_, err = h.SetLimits("g1", meter.Limits{meter.StoredNodes: -1})
	ok(t, err)
	_, err = d.Mkdir(t.Context(), "two")
	ok(t, err)
	_, err = h.SetLimits("nobody", nil)
	is(t, "limits of nobody", err, vfs.NotFound)
}
