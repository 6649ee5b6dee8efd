package authority_test

import (
	"context"
	"runtime"
	"slices"
	"testing"
	"time"

	"capd/vfs"
)

// Heavy calls take turns by the root grant: what was shared from it has the same
// ones, and another grant has its own.
func TestTurns(t *testing.T) {
	h := newHost(t, vfs.Allowance{})
	_, secret := grant(t, h, "agent", "a", false)
	_, other := grant(t, h, "other", "a", false)
	n, err := h.Restore(secret)
	ok(t, err)
	shared, ctl, err := h.Share(n)
	ok(t, err)
	defer ctl.Release()
	ok(t, n.Close())

	ofFirst, ofShared, ofOther := owner(t, h, secret), owner(t, h, shared), owner(t, h, other)
	var done []func()
	for range max(1, runtime.GOMAXPROCS(0)/2) {
		give, err := ofFirst.Look(t.Context())
		ok(t, err)
		done = append(done, give)
	}
	if free(t, ofFirst.Look) || free(t, ofShared.Look) {
		t.Error("there is no bound")
	}
	if !free(t, ofFirst.Change) || !free(t, ofOther.Look) {
		t.Error("a change, or another grant, waits for looks")
	}
	done[0]()
	done[0]()
	if !free(t, ofShared.Look) {
		t.Error("a turn that was given back is not free")
	}
	ok(t, h.Close())
}

type turns interface {
	Look(context.Context) (func(), error)
	Change(context.Context) (func(), error)
	Keep(drop func()) (forget, dropOldest func())
}

// So do the listings that are kept: the oldest makes room.
func TestListings(t *testing.T) {
	h := newHost(t, vfs.Allowance{})
	_, secret := grant(t, h, "agent", "a", false)
	_, other := grant(t, h, "other", "a", false)
	n, err := h.Restore(secret)
	ok(t, err)
	shared, ctl, err := h.Share(n)
	ok(t, err)
	defer ctl.Release()
	ok(t, n.Close())

	ofFirst, ofShared, ofOther := owner(t, h, secret), owner(t, h, shared), owner(t, h, other)
	var dropped []int
	keep := func(o turns, i int) (forget func()) {
		forget, dropOldest := o.Keep(func() { dropped = append(dropped, i) })
		dropOldest()
		return forget
	}
	for i := range 2 {
		keep(ofFirst, i)
		keep(ofShared, 2+i)
	}
	keep(ofOther, 8)
	if dropped != nil {
		t.Fatalf("%v were dropped", dropped)
	}
	forget := keep(ofShared, 9)
	if forget(); !slices.Equal(dropped, []int{0}) {
		t.Errorf("%v were dropped, want the oldest", dropped)
	}
	forget()
	keep(ofFirst, 10)
	keep(ofFirst, 11)
	if !slices.Equal(dropped, []int{0, 2}) {
		t.Errorf("%v were dropped", dropped)
	}
	ok(t, h.Close())
}

// owner is whose the node is that a secret stands for.
func owner(t *testing.T, h interface {
	Restore([]byte) (vfs.Node, error)
}, secret []byte) turns {
	t.Helper()
	n, err := h.Restore(secret)
	ok(t, err)
	defer n.Close()
	return vfs.OwnerOf(n).(turns)
}

// free reports whether a turn is to be had.
func free(t *testing.T, take func(context.Context) (func(), error)) bool {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	done, err := take(ctx)
	if err != nil {
		return false
	}
	done()
	return true
}

// The summary counts what is there, each grant's use once.
func TestSummary(t *testing.T) {
	h := newHost(t, vfs.Allowance{})
	g, secret := grant(t, h, "agent", "a", false)
	n, err := h.Restore(secret)
	ok(t, err)
	_, ctl, err := h.Share(n)
	ok(t, err)
	defer ctl.Release()
	u, err := h.Usage(g.ID)
	ok(t, err)
	if s := h.Summary(); s.Grants != 2 || s.Used != u || u.Open == 0 || s.Since.IsZero() {
		t.Errorf("the summary is %+v, and the one root grant uses %+v", s, u)
	}
	_, err = h.Revoke(g.ID)
	ok(t, err)
	if s := h.Summary(); s.Grants != 0 {
		t.Errorf("%d grants after a revoke", s.Grants)
	}
	ok(t, n.Close())
}
