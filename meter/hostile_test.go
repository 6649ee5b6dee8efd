package meter_test

import (
	"testing"

	"capd/meter"
)

// Who waits for room, and tries in vain, does not wake those who wait, and himself.
func TestTriesInVainWakeNobody(t *testing.T) {
	m := meter.NewHost(nil).Grant("a", meter.Limits{meter.MessageBytes: 10, meter.ReplyBytes: 10})
	for _, k := range []meter.Kind{meter.MessageBytes, meter.ReplyBytes} {
		if err := m.Take(k, 8); err != nil {
			t.Fatal(err)
		}
		freed := m.Freed()
		if m.Take(k, 8) == nil || m.TakeFirst(k, 8) {
			t.Fatal("there is no room")
		}
		select {
		case <-freed:
			t.Errorf("%v: nothing was given back, and who waits was told so", k)
		default:
		}
		m.Give(k, 8)
		<-freed
	}
}

// Shares do not pass the limit of their grant by having the first of each.
func TestFirstOfManyShares(t *testing.T) {
	const most, each = 64, 8
	root := meter.NewHost(nil).Grant("a", meter.Limits{meter.MessageBytes: most})
	n := 0
	for range 256 {
		if root.Part("s").TakeFirst(meter.MessageBytes, each) {
			n++
		}
	}
	if used := root.Used(meter.MessageBytes); used > most || n*each != int(used) || n < 2 {
		t.Errorf("%d shares hold %d of %d", n, used, most)
	}
	root.Give(meter.MessageBytes, root.Used(meter.MessageBytes))
	if !root.Part("s").TakeFirst(meter.MessageBytes, 2*most) {
		t.Error("what is larger than the limit is let through where nothing else is")
	}
}
