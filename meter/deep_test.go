package meter_test

import (
	"fmt"
	"testing"

	"capd/meter"
)

// below returns a share nested n deep.
func below(m *meter.Meter, depth int) *meter.Meter {
	for range depth {
		m = m.Part("s")
	}
	return m
}

// Taking costs the same again for each meter above, and no more.
func BenchmarkDeepTake(b *testing.B) {
	for _, depth := range []int{0, 4, 16, 64} {
		m := below(meter.NewHost(nil).Grant("a", nil), depth)
		b.Run(fmt.Sprintf("take/%d", depth), func(b *testing.B) {
			for b.Loop() {
				if m.Take(meter.Nodes, 1) == nil {
					m.Give(meter.Nodes, 1)
				}
			}
		})
		b.Run(fmt.Sprintf("passed/%d", depth), func(b *testing.B) {
			for b.Loop() {
				m.Passed(meter.CallBytes)
			}
		})
		b.Run(fmt.Sprintf("store/%d", depth), func(b *testing.B) {
			e := meter.Effect{Bytes: 1}
			for b.Loop() {
				if m.Reserve(e) == nil {
					m.Settle(e, meter.Effect{})
				}
			}
		})
		b.Run(fmt.Sprintf("room/%d", depth), func(b *testing.B) {
			for b.Loop() {
				m.StoredRoom()
			}
		})
	}
}
