package meter_test

import (
	"fmt"
	"runtime"
	"testing"
	"testing/synctest"
	"time"

	"capd/meter"
)

// What a lane does while it holds its lock depends on the number of root grants, not on their shares.
func BenchmarkPress(b *testing.B) {
	for _, shares := range []int{0, 1024} {
		b.Run(fmt.Sprintf("%d shares each", shares), func(b *testing.B) {
			h := meter.NewHost(nil)
			for range 64 {
				g := h.Grant("g", nil)
				for range shares {
					g.Part("s")
				}
			}
			for b.Loop() {
				h.Press()
			}
		})
	}
}

// There are fewer turns while two root grants are active, by themselves or by their shares, and as many as
// before after one of them has rested.
func TestPressed(t *testing.T) { synctest.Test(t, testPressed) }

func testPressed(t *testing.T) {
	h := meter.NewHost(nil)
	a, b := h.Grant("a", nil), h.Grant("b", nil).Part("share").Part("share of that")
	turn := func(m *meter.Meter, l meter.Lane) {
		_, turn, err := m.Begin(t.Context(), l)
		if err != nil {
			t.Fatal(err)
		}
		turn.End()
	}
	alone := int64(h.Turns(meter.Work))
	few := max(1, int64(runtime.GOMAXPROCS(0))/2)
	is := func(when string, want int64) {
		t.Helper()
		h.Press()
		if got := h.Slots(); got != want {
			t.Errorf("%s: %d turns at once, want %d", when, got, want)
		}
	}
	is("nobody does anything", alone)
	turn(a, meter.Work)
	is("one grant does something", alone)
	turn(b, meter.Heavy)
	is("a share of another does", few)
	var light meter.Turn
	for range 25 {
		a.Enter(&light)
		light.Leave()
		h.Press()
		time.Sleep(100 * time.Millisecond)
	}
	is("one of two has rested", alone)
}
