package vat_test

import (
	"net"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"capd/meter"
	"capd/vat"
	tp "capd/vat/internal/testproto"
)

func sleeping(t testing.TB, e *vat.Cap) *vat.Answer[tp.Echo_sleep_Results] {
	return vat.Send(t.Context(), e, tp.Echo_sleep, func(q tp.Echo_sleep_Params, _ *vat.Caps) error { q.SetMs(60_000); return nil })
}

// A call that is given up cancels its handler's context within a millisecond, usually at once. Messages that are held
// back, to be sent together with others, are not held longer than that here.
func TestCancelWithinAMillisecond(t *testing.T) {
	for _, row := range []struct {
		name  string
		piped int
		most  time.Duration
	}{
		{"alone", 0, 0},
		{"with calls that were aimed at its outcome", 3, time.Millisecond},
	} {
		t.Run(row.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				near, far := net.Pipe()
				w := newWorld()
				server := vat.NewConn(far, vat.Options{Bootstrap: vat.Serve(w.table, w)})
				client := vat.NewConn(near, vat.Options{})
				boot := client.Bootstrap(t.Context())
				a := vat.Send(t.Context(), boot, tp.Server_echo, nil)
				e := a.Cap(tp.Server_echo_Results_echo)
				a.Release()

				call := sleeping(t, e)
				var piped []*vat.Answer[tp.Chain_depth_Results]
				for range row.piped {
					c := call.Cap(0)
					piped = append(piped, vat.Send(t.Context(), c, tp.Chain_depth, nil))
					c.Release()
				}
				time.Sleep(time.Second)
				if len(w.cancelled) != 0 {
					t.Fatalf("%d calls were cancelled, want none", len(w.cancelled))
				}
				given := time.Now()
				for _, p := range piped {
					p.Release()
				}
				call.Release()
				<-w.cancelled
				if got := time.Since(given); got > row.most {
					t.Fatalf("the cancellation took %v, want at most %v", got, row.most)
				}

				e.Release()
				boot.Release()
				client.Close()
				<-client.Done()
				<-server.Done()
			})
		})
	}
}

// busy does work for others until hold is over.
type busy chan struct{}

func (hold busy) Work(*meter.Turn, error) { <-hold }

// A call that is given up while it waits for a turn ends at once.
func TestCancelBeforeItsTurn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := meter.NewHost(nil)
		m, other := h.Grant("g", nil), h.Grant("other", nil)
		near, far := net.Pipe()
		w := newWorld()
		server := vat.NewConn(far, vat.Options{Bootstrap: vat.Serve(w.table, w), Meter: m})
		client := vat.NewConn(near, vat.Options{})
		boot := client.Bootstrap(t.Context())
		a := vat.Send(t.Context(), boot, tp.Server_echo, nil)
		e := a.Cap(tp.Server_echo_Results_echo)
		a.Release()
		synctest.Wait()
		hold := make(busy)
		for range 64 {
			other.Go(meter.Work, hold)
		}
		synctest.Wait() // no time passes, so that they keep their turns
		for _, reversed := range []bool{false, true} {
			const n = 100
			var calls []*vat.Answer[tp.Echo_sleep_Results]
			for range n {
				calls = append(calls, sleeping(t, e))
			}
			synctest.Wait()
			if got := server.Stats().Calls; got != n {
				t.Fatalf("%d calls are in progress, want %d", got, n)
			}
			if reversed {
				slices.Reverse(calls)
			}
			for _, c := range calls {
				c.Release()
			}
			synctest.Wait()
			if got := server.Stats(); got.Calls != 0 || got.Answers != 0 {
				t.Fatalf("reversed %v: %d calls and %d answers are left, want none", reversed, got.Calls, got.Answers)
			}
		}
		if len(w.cancelled) != 0 {
			t.Fatalf("%d calls were cancelled, want none", len(w.cancelled))
		}
		close(hold)
		e.Release()
		boot.Release()
		client.Close()
		<-client.Done()
		<-server.Done()
	})
}

// BenchmarkCancel measures the time from Release until the handler's context ends.
func BenchmarkCancel(b *testing.B) {
	p := connect(b, vat.Limits{})
	started, ended := make(chan struct{}), make(chan struct{})
	e := p.asks(b, vat.Serve(vat.NewTable(vat.Handle(tp.Echo_sleep, func(_ *struct{}, c vat.Call[tp.Echo_sleep_Params, tp.Echo_sleep_Results]) error {
		started <- struct{}{}
		<-c.Context().Done()
		ended <- struct{}{}
		return nil
	})), &struct{}{}))
	defer e.Release()
	for b.Loop() {
		b.StopTimer()
		a := sleeping(b, e)
		<-started
		b.StartTimer()
		a.Release()
		<-ended
	}
}
