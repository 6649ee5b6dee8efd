package server

import (
	"testing"

	"capd/meter"
	"capd/vfs/vfstest/check"
)

// TestReloadEndsLimits: a limit that a reload does not name any more is none, for all guests and for one.
func TestReloadEndsLimits(t *testing.T) {
	stored := Limits{meter.StoredBytes: 100}
	s := &Server{State: t.TempDir(), Logf: t.Logf, Limits: stored, GuestLimits: stored, Mounts: []Mount{{Path: "one", URL: PhysicalURL(t.TempDir())}}}
	check.OK(t, s.Start(t.Context()))
	t.Cleanup(func() { check.OK(t, s.Close()) })
	guests := []Guest{{Name: "agent", Path: "one"}}
	before, err := s.Reconcile(t.Context(), guests)
	check.OK(t, err)
	m, err := s.authority.Meter(t.Context(), before[0].ID)
	check.OK(t, err)
	limits := func(what string, want int64) {
		t.Helper()
		if all, one := s.authority.Meters().All().Limit(meter.StoredBytes), m.Limit(meter.StoredBytes); all != want || one != want {
			t.Errorf("%s: all guests may store %d bytes, and one %d; want %d", what, all, one, want)
		}
	}
	limits("at the start", 100)
	_, err = s.Reload(t.Context(), &Server{State: s.State, Mounts: s.Mounts}, guests)
	check.OK(t, err)
	limits("after the reload", 0)
}
