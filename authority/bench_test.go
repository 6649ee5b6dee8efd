package authority_test

import (
	"fmt"
	"testing"

	"capd/authority"
	"capd/meter"
)

// What one guest does costs the same however many grants there are. Each of these
// operations takes the lock that all guests need.
func BenchmarkAmongGrants(b *testing.B) {
	for _, roots := range []int{1, 16, 64} {
		h := newHost(b, nil)
		for i := range roots {
			fill(b, h, fmt.Sprintf("agent%d", i))
		}
		g, secret := grant(b, h, "honest", "a", false)
		run := func(name string, f func() error) {
			b.Run(fmt.Sprintf("%s/roots=%d", name, roots), func(b *testing.B) {
				for b.Loop() {
					ok(b, f())
				}
			})
		}
		run("restore", func() error {
			n, _, err := h.Restore(b.Context(), secret)
			ok(b, err)
			return n.Close()
		})
		run("share", func() error {
			n, _, err := h.Restore(b.Context(), secret)
			ok(b, err)
			_, ctl, err := h.Share(b.Context(), n)
			ok(b, err)
			ok(b, ctl.Revoke())
			ctl.Release()
			return n.Close()
		})
		run("lock", func() error { _, err := h.SetWritable(g.ID, false); return err })
		run("meter", func() error { _, err := h.Meter(b.Context(), g.ID); return err })
		ok(b, h.Close())
	}
}

// fill gives guest a grant with the most shares that it may have.
func fill(b *testing.B, h *authority.Host, guest string) {
	_, secret := grant(b, h, guest, "a", false)
	n, _, err := h.Restore(b.Context(), secret)
	ok(b, err)
	defer n.Close()
	for range meter.GrantLimits()[meter.Shares] {
		_, ctl, err := h.Share(b.Context(), n)
		ok(b, err)
		ctl.Release()
	}
}
