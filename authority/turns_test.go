package authority_test

import (
	"slices"
	"testing"

	"capd/vfs"
)

type turns interface {
	Keep(drop func()) (forget, dropOldest func())
}

// Listings are kept for the root grant: the oldest makes room.
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
