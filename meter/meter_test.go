package meter_test

import (
	"errors"
	"testing"

	"capd/meter"
)

// held takes one after the other until there is no more, and returns how many it got.
func held(m *meter.Meter, k meter.Kind) (n int) {
	for m.Take(k, 1) == nil {
		n++
	}
	return n
}

func TestShares(t *testing.T) {
	h := meter.NewHost(meter.Limits{meter.Threads: 120})
	a := h.Grant("a", meter.Limits{meter.Threads: -1})
	if n := held(a, meter.Threads); n != 60 {
		t.Errorf("who is alone has %d of 120", n)
	}
	b := h.Grant("b", meter.Limits{meter.Threads: -1})
	if n := held(b, meter.Threads); n != 30 {
		t.Errorf("the second has %d of the 60 that are left", n)
	}
	a.Give(meter.Threads, 60)
	if n := held(b, meter.Threads); n != 30 {
		t.Errorf("when the first has gone it has %d more", n)
	}
}

// A share's holder, and those it shares with, leave something for the giver.
func TestPartOfAPart(t *testing.T) {
	h := meter.NewHost(nil)
	root := h.Grant("root", meter.Limits{meter.Nodes: 64})
	share := root.Part("share")
	of := []*meter.Meter{share, share.Part("1"), share.Part("2"), share.Part("3")}
	all := 0
	for _, m := range of {
		all += held(m, meter.Nodes)
	}
	if all != 32 {
		t.Errorf("a share and its own have %d of 64", all)
	}
	if n := held(root, meter.Nodes); n != 32 {
		t.Errorf("the giver has %d of 64", n)
	}
	for _, u := range root.Uses() {
		if u.Kind == meter.Nodes && (u.Used != 64 || u.Limit != 64 || u.Refused != 1) {
			t.Errorf("reported: %+v", u)
		}
	}
}

// The same is true if the giver has no limit of its own, but a part beside others.
func TestPartOfWhatIsShared(t *testing.T) {
	h := meter.NewHost(meter.Limits{meter.Threads: 64})
	greedy := h.Grant("greedy", meter.Limits{meter.Threads: -1})
	held(greedy, meter.Threads)
	root := h.Grant("root", meter.Limits{meter.Threads: -1})
	share := root.Part("share")
	first, below := held(share, meter.Threads), held(share.Part("below"), meter.Threads)
	if first != 8 || below > 4 {
		t.Errorf("a share has %d of the 16 that its giver may have, and a share of that %d", first, below)
	}
	if n := held(root, meter.Threads); n < 3 {
		t.Errorf("the giver has %d beside them", n)
	}
	root = h.Grant("stores", meter.Limits{meter.StoredBytes: 100})
	share = root.Part("share")
	last := share.Part("below")
	room, _, _ := last.StoredRoom()
	if room > 25 || last.Reserve(meter.Effect{Bytes: room + 1}) == nil || last.Reserve(meter.Effect{Bytes: room}) != nil {
		t.Errorf("a share of a share has room for %d of 100", room)
	}
	if room, _, _ := root.StoredRoom(); room == 0 {
		t.Error("the giver can store nothing")
	}
	if room, _, _ := share.StoredRoom(); room == 0 {
		t.Error("the giver of the second can store nothing")
	}
}

// The first gets the only one, although half of one is none.
func TestOne(t *testing.T) {
	h := meter.NewHost(meter.Limits{meter.Connections: 1})
	a, b := h.Grant("a", meter.Limits{meter.Threads: 1}), h.Grant("b", nil)
	if n := held(a, meter.Connections); n != 1 {
		t.Errorf("the first has %d of 1", n)
	}
	if n := held(b, meter.Connections); n != 0 {
		t.Errorf("the second has %d", n)
	}
	if n := held(a.Part("share"), meter.Threads); n != 1 {
		t.Errorf("a share has %d of 1", n)
	}
	if n := held(a, meter.Threads); n != 0 {
		t.Errorf("its giver has %d beside it", n)
	}
}

func TestLimit(t *testing.T) {
	m := meter.NewHost(nil).Grant("a", meter.Limits{meter.Writers: 2})
	if n := held(m, meter.Writers); n != 2 {
		t.Errorf("%d of 2", n)
	}
	var full *meter.Full
	if err := m.Take(meter.Writers, 1); !errors.As(err, &full) || full.Limit != 2 || full.Share {
		t.Errorf("one more: %v", err)
	}
	m.Set(meter.Limits{meter.Writers: 3})
	if n := held(m, meter.Writers); n != 1 {
		t.Errorf("%d more of 3", n)
	}
	m.Set(meter.Limits{meter.Writers: -1})
	if m.Take(meter.Writers, 1000) != nil {
		t.Error("a limit where there is none")
	}
}

func TestStored(t *testing.T) {
	root := meter.NewHost(nil).Grant("a", meter.Limits{meter.StoredBytes: 100})
	grow := func(m *meter.Meter, n int64) bool {
		e := meter.Effect{Bytes: n}
		if m.Reserve(e) != nil {
			return false
		}
		m.Settle(e, e)
		return true
	}
	share := root.Part("s")
	if grow(share, 51) || !grow(share, 50) {
		t.Error("a share may store half of what there is")
	}
	if grow(root, 51) || !grow(root, 50) {
		t.Error("and the giver the rest")
	}
	var lacks *meter.Lacks
	if err := root.Reserve(meter.Effect{Bytes: 1}); !errors.As(err, &lacks) || lacks.Left.Bytes != 0 {
		t.Errorf("one byte more: %v", err)
	}
	// What the giver removes is the giver's again, whoever stored it, and does not hinder the
	// share.
	if root.Settle(meter.Effect{}, meter.Effect{Bytes: -100}); !grow(share, 40) || !grow(share, 5) || grow(share, 10) {
		t.Errorf("after all was removed: share %d, root %d", share.Used(meter.StoredBytes), root.Used(meter.StoredBytes))
	}
	// Removing earns no allowance.
	root.Settle(meter.Effect{}, meter.Effect{Bytes: -1000})
	if n := root.Used(meter.StoredBytes); n != 0 {
		t.Errorf("%d are used", n)
	}
}

// What a share was refused counts in its grant after the share has ended.
func TestRefusedOfAnEndedPart(t *testing.T) {
	m := meter.NewHost(nil).Grant("test", meter.Limits{meter.Nodes: 1})
	p := m.Part("share")
	if p.Take(meter.Nodes, 2) == nil {
		t.Fatal("it was not refused")
	}
	p.End()
	if n := m.Uses()[meter.Nodes].Refused; n != 1 {
		t.Errorf("%d refused, want 1", n)
	}
}

// The error for one who can have none at all beside others does not say 0.
func TestNoneBesideOthers(t *testing.T) {
	h := meter.NewHost(meter.Limits{meter.Threads: 1})
	if err := h.Grant("a", nil).Take(meter.Threads, 1); err != nil {
		t.Fatal(err)
	}
	want := "others leave this grant no calls that wait for the disk now (limit threads); let some end, or try again later"
	if err := h.Grant("b", nil).Take(meter.Threads, 1); err == nil || err.Error() != want {
		t.Errorf("%v, want %q", err, want)
	}
}

// The most that was held at once is remembered, whoever held it. Refused requests do not count.
func TestPeak(t *testing.T) {
	h := meter.NewHost(nil)
	grant := h.Grant("a", meter.Limits{meter.Nodes: 10, meter.StoredBytes: 100})
	share := grant.Part("s")
	peak := func(m *meter.Meter, k meter.Kind) int64 { return m.Uses()[k].Peak }
	if err := errors.Join(grant.Take(meter.Nodes, 3), share.Take(meter.Nodes, 2), grant.Take(meter.Nodes, 2)); err != nil {
		t.Fatal(err)
	}
	if share.Take(meter.Nodes, 5) == nil || grant.Take(meter.Nodes, 4) == nil {
		t.Fatal("there is no room")
	}
	share.Give(meter.Nodes, 2)
	grant.Give(meter.Nodes, 5)
	share.End()
	if g, s, all := peak(grant, meter.Nodes), peak(share, meter.Nodes), peak(h.All(), meter.Nodes); g != 7 || s != 2 || all != 7 {
		t.Errorf("of 7 nodes the grant had %d at most, the share %d, the host %d", g, s, all)
	}
	store := func(reserve, got int64) {
		t.Helper()
		if err := grant.Reserve(meter.Effect{Bytes: reserve}); err != nil {
			t.Fatal(err)
		}
		grant.Settle(meter.Effect{Bytes: reserve}, meter.Effect{Bytes: got})
	}
	store(90, 40)
	store(20, 20)
	store(0, -50)
	if grant.Reserve(meter.Effect{Bytes: 200}) == nil {
		t.Fatal("there is no room")
	}
	grant.Revert(meter.Effect{Bytes: 10})
	if g, all := peak(grant, meter.StoredBytes), peak(h.All(), meter.StoredBytes); g != 60 || all != 60 {
		t.Errorf("of 60 bytes the grant had %d at most, the host %d", g, all)
	}
}
