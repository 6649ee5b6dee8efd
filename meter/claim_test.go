package meter_test

import (
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"capd/meter"
)

// Giving back wakes nobody who cannot be met, even if somebody waits in each of many shares.
func TestGiveWakesOnlyWhoCanBeMet(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := meter.NewHost(nil)
		root := h.Grant("a", meter.Limits{meter.ReplyBytes: 64})
		root.Force(meter.ReplyBytes, 64)
		var tries atomic.Int64
		for range 100 {
			p := root.Part("s")
			go func() {
				c := p.Claim(meter.ReplyBytes)
				defer c.End()
				for tries.Add(1); !c.Take(8); tries.Add(1) {
					select {
					case <-c.Again():
					case <-t.Context().Done():
						return
					}
				}
			}()
		}
		synctest.Wait()
		before := tries.Load()
		other := h.Grant("b", nil)
		for range 10 {
			other.Force(meter.ReplyBytes, 1)
			other.Give(meter.ReplyBytes, 1)
			synctest.Wait()
		}
		if n := tries.Load() - before; n != 0 {
			t.Errorf("what another grant gave back woke %d who could not be met", n)
		}
		before = tries.Load()
		root.Give(meter.ReplyBytes, 8)
		synctest.Wait()
		if n := tries.Load() - before; n != 1 {
			t.Errorf("room for one woke %d", n)
		}
	})
}

// BenchmarkGive gives bytes back while somebody waits in each of many shares of another grant.
func BenchmarkGive(b *testing.B) {
	for _, shares := range []int{0, 1, 256} {
		b.Run(fmt.Sprintf("%d wait", shares), func(b *testing.B) {
			h := meter.NewHost(nil)
			root := h.Grant("a", meter.Limits{meter.ReplyBytes: 64})
			root.Force(meter.ReplyBytes, 64)
			stop := make(chan struct{})
			defer close(stop)
			for range shares {
				c := root.Part("s").Claim(meter.ReplyBytes)
				c.Take(8)
				go func() {
					for {
						select {
						case <-c.Again():
							c.Take(8)
						case <-stop:
							return
						}
					}
				}()
			}
			m := h.Grant("b", nil)
			for b.Loop() {
				m.Force(meter.ReplyBytes, 1)
				m.Give(meter.ReplyBytes, 1)
			}
		})
	}
}

// A caller who tries first and then waits was refused once.
func TestWhoWaitsWasRefusedOnce(t *testing.T) {
	m := meter.NewHost(nil).Grant("a", meter.Limits{meter.ReplyBytes: 10})
	m.Force(meter.ReplyBytes, 8)
	claim := m.Claim(meter.ReplyBytes)
	defer claim.End()
	if m.TakeFirst(meter.ReplyBytes, 8) || claim.Take(8) || claim.Take(8) {
		t.Fatal("there is no room")
	}
	if n := m.Uses()[meter.ReplyBytes].Refused; n != 1 {
		t.Errorf("refused %d times, want once", n)
	}
}

// A woken claim that ends, or that finds others quicker, wakes another that can be met.
func TestWokenClaimPassesItOn(t *testing.T) {
	for name, pass := range map[string]func(root *meter.Meter, woken *meter.Claim){
		"it gives up": func(_ *meter.Meter, woken *meter.Claim) { woken.End() },
		"others were quicker": func(root *meter.Meter, woken *meter.Claim) {
			root.Force(meter.ReplyBytes, 4)
			if woken.Take(8) {
				t.Error("there is no room for 8")
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			for range 20 { // until the other one was woken
				root := meter.NewHost(nil).Grant("a", meter.Limits{meter.ReplyBytes: 16})
				root.Force(meter.ReplyBytes, 16)
				large, small := root.Part("large").Claim(meter.ReplyBytes), root.Part("small").Claim(meter.ReplyBytes)
				if large.Take(8) || small.Take(4) {
					t.Fatal("there is no room")
				}
				root.Give(meter.ReplyBytes, 8)
				select {
				case <-large.Again():
				case <-small.Again():
					continue
				}
				pass(root, large)
				select {
				case <-small.Again():
				default:
					t.Fatal("there is room for another, and nobody was woken")
				}
				if !small.Take(4) {
					t.Error("there is no room for 4")
				}
				return
			}
			t.Error("one of two is never woken first")
		})
	}
}
