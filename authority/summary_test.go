package authority_test

import (
	"testing"

	"capd/meter"
)

// The summary counts the grants, and the host's meter counts the use of all, each grant's use
// once.
func TestSummary(t *testing.T) {
	h := newHost(t, nil)
	g, secret := grant(t, h, "agent", "a", false)
	n, _, err := h.Restore(t.Context(), secret)
	ok(t, err)
	_, ctl, err := h.Share(t.Context(), n)
	ok(t, err)
	defer ctl.Release()
	m, err := h.Meter(t.Context(), g.ID)
	ok(t, err)
	used := m.Used(meter.Nodes)
	if s, err := h.Summary(); err != nil || s.Grants != 2 || s.Resident != 2 || s.Since.IsZero() {
		t.Errorf("the summary is %+v", s)
	}
	if all := h.Meters().All().Used(meter.Nodes); all != used || used == 0 {
		t.Errorf("all use %d nodes, and the one root grant %d", all, used)
	}
	_, err = h.Revoke(g.ID)
	ok(t, err)
	if s, err := h.Summary(); err != nil || s.Grants != 0 || s.Resident != 0 {
		t.Errorf("%d grants after a revoke, %d of them in memory", s.Grants, s.Resident)
	}
	ok(t, n.Close())
}
