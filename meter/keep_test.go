package meter_test

import (
	"slices"
	"testing"

	"capd/meter"
)

// The oldest that a meter keeps makes room, but only for others of the same meter.
func TestKeep(t *testing.T) {
	root := meter.NewHost(nil).Grant("a", meter.Limits{meter.Listings: 4})
	share := root.Part("s")
	var dropped []string
	keep := func(m *meter.Meter, name string) *meter.Kept {
		k, dropOldest := m.Keep(meter.Listings, func() { dropped = append(dropped, name) })
		dropOldest()
		return k
	}
	is := func(names ...string) {
		t.Helper()
		if !slices.Equal(dropped, names) {
			t.Errorf("%q were dropped, want %q", dropped, names)
		}
		dropped = nil
	}
	a := keep(share, "a")
	keep(share, "b")
	is()
	keep(share, "c")
	is("a")
	if a.Forget() {
		t.Error("what was dropped was kept still")
	}
	r := keep(root, "r")
	keep(root, "r2")
	is()
	keep(root, "r3")
	is("r")
	if keep(root.Part("late"), "none") != nil {
		t.Error("something is kept where there is no room and nothing of one's own")
	}
	is()
	if r.Forget() || root.Used(meter.Listings) != 4 || share.Used(meter.Listings) != 2 {
		t.Errorf("held are %d, and %d of the share", root.Used(meter.Listings), share.Used(meter.Listings))
	}
	for range 9 {
		keep((*meter.Meter)(nil), "nobody's")
	}
	is()
}
