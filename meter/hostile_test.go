package meter_test

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"capd/meter"
)

// A thread that is given back at the moment at which another request fails is noticed.
func TestNoThreadIsMissed(t *testing.T) {
	m := meter.NewHost(nil).Grant("a", meter.Limits{meter.Threads: 1})
	var wg sync.WaitGroup
	for i := range 4 {
		wg.Go(func() {
			for range 5000 {
				_, turn, err := m.Begin(t.Context(), []meter.Lane{meter.Work, meter.Heavy}[i%2])
				if err != nil {
					t.Errorf("nothing is stuck, and yet: %v", err)
					return
				}
				turn.End()
			}
		})
	}
	wg.Wait()
	if n := m.Used(meter.Threads); n != 0 {
		t.Errorf("%d threads are left", n)
	}
}

// A failed try to take room wakes no claim that waits, not even its own.
func TestTriesInVainWakeNobody(t *testing.T) {
	m := meter.NewHost(nil).Grant("a", meter.Limits{meter.MessageBytes: 10, meter.ReplyBytes: 10})
	for _, k := range []meter.Kind{meter.MessageBytes, meter.ReplyBytes} {
		if err := m.Take(k, 8); err != nil {
			t.Fatal(err)
		}
		claim := m.Claim(k)
		for range 3 {
			if claim.Take(8) || m.Take(k, 8) == nil || m.TakeFirst(k, 8) {
				t.Fatal("there is no room")
			}
		}
		select {
		case <-claim.Again():
			t.Errorf("%v: nothing was given back, and who waits was told so", k)
		default:
		}
		m.Give(k, 8)
		<-claim.Again()
		if !claim.Take(8) {
			t.Errorf("%v: no room", k)
		}
	}
}

// Giving back wakes one of many who wait, and that one wakes the next if there is room. Each is met in the
// end.
func TestClaimsAreMetOneByOne(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		root := meter.NewHost(nil).Grant("a", meter.Limits{meter.ReplyBytes: 64})
		root.Force(meter.ReplyBytes, 64)
		ctx, cancel := context.WithCancel(t.Context())
		var tries, met atomic.Int64
		for range 100 {
			go func() {
				c := root.Claim(meter.ReplyBytes)
				defer c.End()
				for tries.Add(1); !c.Take(8); tries.Add(1) {
					select {
					case <-c.Again():
					case <-ctx.Done():
						return
					}
				}
				met.Add(1)
			}()
		}
		synctest.Wait()
		for i, step := range []struct{ given, tries, met int64 }{
			{1, 1, 0}, {7, 2, 1}, {24, 4, 4}, {3, 1, 4}, {5, 2, 5},
		} {
			before := tries.Load()
			root.Give(meter.ReplyBytes, step.given)
			synctest.Wait()
			if n := tries.Load() - before; n > step.tries || met.Load() != step.met {
				t.Errorf("step %d: %d tries, want %d; %d were met, want %d", i, n, step.tries, met.Load(), step.met)
			}
		}
		cancel()
		synctest.Wait()
		next := root.Claim(meter.ReplyBytes)
		if next.Take(8) {
			t.Error("there is no room")
		}
		root.Give(meter.ReplyBytes, 8)
		<-next.Again() // nobody who has gone is before it in the queue
		next.End()
	})
}

// Shares do not exceed the limit of their grant, although each may have its first.
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

// Turns beside a deeply nested share in which many requests wait.
func BenchmarkDeepShares(b *testing.B) {
	h := meter.NewHost(nil)
	deep := h.Grant("a", nil)
	for range 500 {
		deep = deep.Part("s")
	}
	honest := h.Grant("b", nil)
	ctx, stop := context.WithCancel(b.Context())
	defer stop()
	var wg sync.WaitGroup
	for range 64 {
		wg.Go(func() {
			for ctx.Err() == nil {
				if _, turn, err := deep.Begin(ctx, meter.Work); err == nil {
					turn.End()
				}
			}
		})
	}
	for b.Loop() {
		_, turn, err := honest.Begin(b.Context(), meter.Work)
		if err != nil {
			b.Fatal(err)
		}
		turn.End()
	}
	stop()
	wg.Wait()
}

// When a call ends while a goroutine that it left behind changes its lane, neither a turn nor a thread is
// lost.
func TestEndBesideMove(t *testing.T) {
	m := meter.NewHost(nil).Grant("a", nil)
	contexts, moved := make(chan context.Context), make(chan struct{})
	defer close(contexts)
	var begun atomic.Bool
	go func() {
		for ctx := range contexts {
			begun.Store(true)
			_ = meter.Move(ctx, meter.Heavy)
			moved <- struct{}{}
		}
	}()
	for i := range 20_000 {
		ctx, turn, err := m.Begin(t.Context(), meter.Work)
		if err != nil {
			t.Fatal(err)
		}
		begun.Store(false)
		contexts <- ctx
		for spins := i % 64; !begun.Load() || spins > 0; spins-- { // so that each of them is sometimes the first
		}
		turn.End()
		<-moved
		if n, work, heavy := m.Used(meter.Threads), m.Taken(meter.Work), m.Taken(meter.Heavy); n+work+heavy != 0 {
			t.Fatalf("%d threads and %d and %d turns are left", n, work, heavy)
		}
	}
}
