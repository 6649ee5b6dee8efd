package meter_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"capd/meter"
)

// job is a call that takes some time.
type job func(t *meter.Turn, err error)

func (j job) Work(t *meter.Turn, err error) { j(t, err) }

// Each of two grants has half of the time, however many calls one of them has waiting. So have a share and
// its giver.
func TestFair(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := meter.NewHost(nil)
		a, b := h.Grant("a", nil), h.Grant("b", nil)
		share := b.Part("share")
		var had [3]time.Duration
		var left atomic.Int64
		var mu sync.Mutex
		ask := func(m *meter.Meter, i, n int, d time.Duration) {
			left.Add(int64(n))
			for range n {
				m.Go(meter.Heavy, job(func(*meter.Turn, error) {
					time.Sleep(d)
					if left.Add(-1) > 600 { // while all of them wait
						mu.Lock()
						had[i] += d
						mu.Unlock()
					}
				}))
			}
		}
		ask(a, 0, 800, 2*time.Millisecond)
		ask(share, 1, 400, time.Millisecond)
		ask(b, 2, 400, time.Millisecond)
		synctest.Wait()
		time.Sleep(time.Minute)
		all := had[0] + had[1] + had[2]
		for i, want := range []float64{0.5, 0.25, 0.25} {
			if got := float64(had[i]) / float64(all); got < want-0.03 || got > want+0.03 {
				t.Errorf("%d has had %.2f of the time, want %.2f", i, got, want)
			}
		}
	})
}

// A newcomer to a crowd is next, but it has no turns saved up.
func TestNext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := meter.NewHost(nil)
		crowd, one := h.Grant("crowd", nil), h.Grant("one", nil)
		for range 1000 {
			crowd.Go(meter.Heavy, job(func(*meter.Turn, error) { time.Sleep(5 * time.Millisecond) }))
		}
		time.Sleep(100 * time.Millisecond)
		begun := time.Now()
		_, turn, err := one.Begin(t.Context(), meter.Heavy)
		if err != nil {
			t.Fatal(err)
		}
		if d := time.Since(begun); d > 5*time.Millisecond {
			t.Errorf("waited %v", d)
		}
		turn.End()
		time.Sleep(time.Minute)
	})
}

// Stuck calls do not make others wait, and requests behind them are answered busy.
func TestStuck(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := meter.NewHost(meter.Limits{meter.Threads: 64})
		stuck, other := h.Grant("stuck", nil), h.Grant("other", nil)
		hang := make(chan struct{})
		var running, busy atomic.Int64
		for range 1000 {
			stuck.Go(meter.Work, job(func(_ *meter.Turn, err error) {
				if errors.Is(err, meter.ErrBusy) {
					busy.Add(1)
					return
				}
				running.Add(1)
				<-hang
			}))
		}
		time.Sleep(200 * time.Millisecond)
		if n := running.Load(); n != 32 {
			t.Errorf("%d run, of 64", n)
		}
		for range 100 {
			begun := time.Now()
			ctx, turn, err := other.Begin(t.Context(), meter.Work)
			if err != nil {
				t.Fatal(err)
			}
			if d := time.Since(begun); d > 5*time.Millisecond {
				t.Fatalf("waited %v beside them", d)
			}
			if err := meter.Wait(ctx, func() { time.Sleep(time.Second) }); err != nil {
				t.Fatal(err)
			}
			turn.End()
		}
		if n := busy.Load(); n != 1000-32 {
			t.Errorf("%d were told busy", n)
		}
		close(hang)
		synctest.Wait()
		time.Sleep(time.Second)
		if n := h.All().Used(meter.Threads); n != 0 {
			t.Errorf("%d threads are left", n)
		}
	})
}

// Requests without a thread are answered busy, even if somebody else has the only turn almost all the time.
func TestStuckBesideBusy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := meter.NewHost(meter.Limits{meter.Threads: 64})
		stuck, other := h.Grant("stuck", nil), h.Grant("other", nil)
		stop := time.Now().Add(5 * time.Second)
		var rest sync.WaitGroup
		for range 4 {
			rest.Go(func() {
				for time.Now().Before(stop) {
					_, turn, err := other.Begin(t.Context(), meter.Work)
					if err != nil {
						t.Error(err)
						return
					}
					time.Sleep(1700 * time.Microsecond)
					turn.End()
				}
			})
		}
		rest.Go(func() { // something of the stuck grant goes on
			for time.Now().Before(stop) {
				var turn meter.Turn
				stuck.Enter(&turn)
				turn.Leave()
				time.Sleep(100 * time.Millisecond)
			}
		})
		time.Sleep(100 * time.Millisecond)
		hang := make(chan struct{})
		var busy atomic.Int64
		const calls = 100
		for range calls {
			stuck.Go(meter.Work, job(func(_ *meter.Turn, err error) {
				if errors.Is(err, meter.ErrBusy) {
					busy.Add(1)
					return
				}
				<-hang
			}))
		}
		rest.Wait()
		if n := busy.Load(); n != calls-32 && n != calls-31 {
			t.Errorf("%d of %d were told busy", n, calls)
		}
		close(hang)
	})
}

// A call that is cancelled while it waits never runs.
func TestCancel(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := meter.NewHost(nil)
		m := h.Grant("g", nil)
		hold := make(chan struct{})
		var ran atomic.Int64
		turns := make([]meter.Turn, 100)
		for i := range turns {
			m.GoIn(&turns[i], meter.Heavy, job(func(*meter.Turn, error) {
				ran.Add(1)
				<-hold
			}))
		}
		synctest.Wait()
		running := ran.Load()
		for _, want := range []int64{int64(len(turns)) - running, 0} { // once more has no effect
			canceled := int64(0)
			for i := range turns {
				if turns[i].Cancel() {
					canceled++
				}
			}
			if running == 0 || canceled != want {
				t.Errorf("%d run and %d were cancelled, of %d", running, canceled, len(turns))
			}
		}
		close(hold)
		time.Sleep(time.Minute)
		if n := ran.Load(); n != running {
			t.Errorf("%d ran, %d of which were cancelled", n, n-running)
		}
		if _, turn, err := m.Begin(t.Context(), meter.Heavy); err != nil {
			t.Error(err)
		} else {
			turn.End()
		}
		if n := h.All().Used(meter.Threads); n != 0 {
			t.Errorf("%d threads are left", n)
		}
	})
}

// A long loop passes its turn on.
func TestYield(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := meter.NewHost(nil)
		var wg sync.WaitGroup
		var steps [2]atomic.Int64
		stop := time.Now().Add(5 * time.Second)
		for i := range steps {
			m := h.Grant(fmt.Sprint(i), nil)
			for range 8 * (i + 1) {
				wg.Go(func() {
					ctx, turn, err := m.Begin(t.Context(), meter.Heavy)
					if err != nil {
						t.Error(err)
						return
					}
					defer turn.End()
					for time.Now().Before(stop) {
						time.Sleep(time.Millisecond)
						steps[i].Add(1)
						if err := meter.Yield(ctx); err != nil {
							t.Error(err)
						}
					}
				})
			}
		}
		wg.Wait()
		if a, b := float64(steps[0].Load()), float64(steps[1].Load()); a/b < 0.9 || a/b > 1.1 {
			t.Errorf("%v and %v steps", a, b)
		}
	})
}

// A request that is cancelled while it waits leaves nothing behind.
func TestCancelled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := meter.NewHost(nil).Grant("a", nil)
		release := make(chan struct{})
		for range 1024 {
			m.Go(meter.Work, job(func(*meter.Turn, error) { <-release }))
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
		defer cancel()
		if _, _, err := m.Begin(ctx, meter.Work); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%v, want the end of the context", err)
		}
		close(release)
		time.Sleep(2 * time.Second)
		_, turn, err := m.Begin(t.Context(), meter.Work)
		if err != nil {
			t.Fatal(err)
		}
		turn.End()
		if n := m.Used(meter.Threads); n != 0 {
			t.Errorf("%d threads are left", n)
		}
		for _, turns := range m.Turns() {
			if turns.Waiting != 0 {
				t.Errorf("%+v", turns)
			}
		}
	})
}

// A turn may move to another lane. What the call leaves behind has no turn.
func TestMove(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := meter.NewHost(nil)
		m := h.Grant("a", nil)
		var heavy, most atomic.Int64
		left := make(chan error, 1)
		for range 100 {
			m.Go(meter.Work, job(func(turn *meter.Turn, _ error) {
				ctx := turn.Context(t.Context())
				time.Sleep(100 * time.Microsecond)
				if err := meter.Move(ctx, meter.Heavy); err != nil {
					t.Error(err)
				}
				if n := heavy.Add(1); n > most.Load() {
					most.Store(n)
				}
				time.Sleep(time.Millisecond)
				heavy.Add(-1)
				go func() {
					err := meter.Wait(ctx, func() { time.Sleep(time.Millisecond) })
					select {
					case left <- err:
					default:
					}
				}()
			}))
		}
		time.Sleep(time.Minute)
		if n := most.Load(); n != int64(h.Turns(meter.Heavy)) {
			t.Errorf("%d at once, of %d", n, h.Turns(meter.Heavy))
		}
		if err := <-left; err != nil {
			t.Error(err)
		}
		if n := m.Used(meter.Threads); n != 0 {
			t.Errorf("%d threads are left", n)
		}
	})
}

// Calls that wait for somebody are bounded, and one too many gets an error.
func TestWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := meter.NewHost(nil).Grant("a", meter.Limits{meter.Waits: 10})
		ctx, cancel := context.WithCancel(t.Context())
		var waited, full atomic.Int64
		for range 25 {
			m.Go(meter.Work, job(func(turn *meter.Turn, _ error) {
				err := turn.Wait(ctx, func() {
					waited.Add(1)
					<-ctx.Done()
				})
				if _, ok := errors.AsType[*meter.Full](err); ok {
					full.Add(1)
				}
			}))
		}
		time.Sleep(time.Second)
		if waited.Load() != 10 || full.Load() != 15 {
			t.Errorf("%d wait, %d were refused", waited.Load(), full.Load())
		}
		cancel()
		synctest.Wait()
		if m.Used(meter.Waits) != 0 || m.Used(meter.Threads) != 0 {
			t.Error("something is left")
		}
	})
}

// A grant that is alone has all turns of Work. When another grant or the giver of a share is active, there
// are half as many turns as processors.
func TestPressure(t *testing.T) {
	t.Run("grants", func(t *testing.T) {
		h := meter.NewHost(nil)
		press(t, h, h.Grant("a", nil), h.Grant("b", nil))
	})
	t.Run("share", func(t *testing.T) {
		h := meter.NewHost(nil)
		giver := h.Grant("a", nil)
		press(t, h, giver.Part("share"), giver)
	})
}

// press has a work, and then b.
func press(t *testing.T, h *meter.Host, a, b *meter.Meter) {
	synctest.Test(t, func(t *testing.T) {
		var running, most atomic.Int64
		end := time.Now().Add(4 * time.Second)
		for range 100 {
			var again job
			again = func(turn *meter.Turn, _ error) {
				if n := running.Add(1); n > most.Load() {
					most.Store(n)
				}
				time.Sleep(500 * time.Microsecond)
				running.Add(-1)
				if time.Now().Before(end) {
					a.Go(meter.Work, again)
				}
			}
			a.Go(meter.Work, again)
		}
		time.Sleep(time.Second)
		if n := most.Load(); n != int64(h.Turns(meter.Work)) {
			t.Errorf("alone: %d at once, want %d", n, h.Turns(meter.Work))
		}
		for i := range 1000 {
			_, turn, err := b.Begin(t.Context(), meter.Work)
			if err != nil {
				t.Fatal(err)
			}
			turn.End()
			time.Sleep(time.Millisecond)
			if i == 100 {
				most.Store(0)
			}
		}
		if n := most.Load(); n != max(1, int64(runtime.GOMAXPROCS(0)/2)) {
			t.Errorf("beside another: %d at once", n)
		}
		time.Sleep(time.Minute)
	})
}

// A meter of its own gives turns again and again.
func TestAlone(t *testing.T) {
	m := meter.Alone(2)
	for range 10 {
		_, turn, err := m.Begin(t.Context(), meter.Work)
		if err != nil {
			t.Fatal(err)
		}
		turn.End()
	}
}

// Turns of Light, for the race detector.
func TestLight(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { // where no time passes, no turn is added for one whose owner does not run
		h := meter.NewHost(nil)
		var running, most atomic.Int64
		var wg sync.WaitGroup
		for i := range 16 {
			m := h.Grant(fmt.Sprint(i), nil)
			wg.Go(func() {
				var turn meter.Turn
				for range 20_000 {
					m.Enter(&turn)
					if n := running.Add(1); n > most.Load() {
						most.Store(n)
					}
					running.Add(-1)
					turn.Leave()
				}
			})
		}
		wg.Wait()
		if most.Load() > int64(h.Turns(meter.Light)) {
			t.Errorf("%d at once, of %d", most.Load(), h.Turns(meter.Light))
		}
		given := int64(0)
		for _, p := range h.All().Parts() {
			given += p.Turns()[meter.Light].Given
		}
		if given != 320_000 {
			t.Errorf("%d turns were counted", given)
		}
	})
}

func BenchmarkLight(b *testing.B) {
	m := meter.NewHost(nil).Grant("a", nil)
	b.RunParallel(func(pb *testing.PB) {
		var turn meter.Turn
		for pb.Next() {
			m.Enter(&turn)
			turn.Leave()
		}
	})
}

func BenchmarkWork(b *testing.B) {
	m := meter.NewHost(nil).Grant("a", nil)
	for b.Loop() {
		_, turn, _ := m.Begin(b.Context(), meter.Work)
		turn.End()
	}
}
