package membrane_test

import (
	"bytes"
	"context"
	"io"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"capd/meter"
	"capd/vfs"
	"capd/vfs/faultfs"
	"capd/vfs/membrane"
	"capd/vfs/vfstest"
	"capd/vfs/vfstest/check"
)

// behind is a sample behind a bulkhead with room for n, and a record of what happens in
// its store.
func behind(t testing.TB, n int) (vfs.Dir, *membrane.Bulkhead, *faultfs.Plan) {
	t.Helper()
	_, raw := check.Store(t, check.Sample)
	plan, b := new(faultfs.Plan), membrane.NewBulkhead(n)
	return membrane.Guarded(faultfs.New(raw, plan), nil, membrane.Guard{Bulkhead: b}), b, plan
}

// TestSuiteInside runs the conformance suite through a very small bulkhead. No call may
// enter it twice, and every call of the store must be inside it.
func TestSuiteInside(t *testing.T) {
	var calls, outside atomic.Int64
	vfstest.Run(t, vfstest.Store{New: func(t testing.TB, tree vfstest.Tree) vfs.Dir {
		_, raw := check.Store(t, tree)
		plan, b := new(faultfs.Plan), membrane.NewBulkhead(2)
		plan.Watch(func(op faultfs.Op, stage faultfs.Stage) {
			if stage == faultfs.Before && op != faultfs.Close {
				calls.Add(1)
				if membrane.Stats(b).Inside == 0 {
					outside.Add(1)
					t.Errorf("%s is not inside the bulkhead", op)
				}
			}
		})
		t.Cleanup(func() {
			if s := membrane.Stats(b); s.Inside != 0 || s.Waiting != 0 {
				t.Errorf("at the end %+v", s)
			}
		})
		return membrane.Guarded(faultfs.New(raw, plan), nil, membrane.Guard{Bulkhead: b})
	}})
	if calls.Load() < 1000 || outside.Load() > 0 {
		t.Errorf("%d calls, %d of them outside", calls.Load(), outside.Load())
	}
}

// jam makes calls of op on d wait in f until the store is released, as many as there is
// room for.
func jam(t testing.TB, b *membrane.Bulkhead, plan *faultfs.Plan, op faultfs.Op, f func()) (release func()) {
	t.Helper()
	free := make(chan struct{})
	plan.Watch(func(at faultfs.Op, stage faultfs.Stage) {
		if at == op && stage == faultfs.Before {
			<-free
		}
	})
	for range membrane.Stats(b).Max {
		go f()
	}
	synctest.Wait()
	if s := membrane.Stats(b); s.Inside != s.Max {
		t.Fatalf("jammed with %+v", s)
	}
	return func() { plan.Watch(nil); close(free) }
}

// TestBulkheadStuck: a store stops answering. The calls inside it are bounded. Those that
// wait answer busy after a second, and later ones at once. Everything works again when the
// store answers again.
func TestBulkheadStuck(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d, b, plan := behind(t, 4)
		f := check.FileAt(t, d, "f")
		look := func() error { _, err := f.Stat(t.Context()); return err }
		release := jam(t, b, plan, faultfs.Stat, func() { check.OK(t, look()) })
		const others = 100
		told := make(chan error, others)
		begun := time.Now()
		for range others {
			go func() { told <- look() }()
		}
		synctest.Wait()
		if s := membrane.Stats(b); s.Inside != 4 || s.Waiting != others {
			t.Errorf("while it hangs %+v", s)
		}
		for range others {
			check.Is(t, "waiting where nothing ends", <-told, vfs.Busy)
		}
		if took := time.Since(begun); took != time.Second {
			t.Errorf("they were told after %v", took)
		}
		check.Is(t, "coming where nothing ends", look(), vfs.Busy)
		if took := time.Since(begun); took != time.Second {
			t.Errorf("who came later was told after %v", took)
		}
		release()
		synctest.Wait()
		check.OK(t, look())
		if s := membrane.Stats(b); s.Inside != 0 || s.Waiting != 0 {
			t.Errorf("afterwards %+v", s)
		}
	})
}

// TestBulkheadSlow: nobody is told busy as long as calls end.
func TestBulkheadSlow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d, _, plan := behind(t, 2)
		f := check.FileAt(t, d, "f")
		plan.Watch(func(op faultfs.Op, stage faultfs.Stage) {
			if op == faultfs.Stat && stage == faultfs.Before {
				time.Sleep(900 * time.Millisecond)
			}
		})
		done := make(chan error)
		for range 20 {
			go func() { _, err := f.Stat(t.Context()); done <- err }()
		}
		for range 20 {
			check.OK(t, <-done)
		}
	})
}

// TestBulkheadCancel: a caller that stops waiting is told so at once, and takes no turn.
func TestBulkheadCancel(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d, b, plan := behind(t, 1)
		f := check.FileAt(t, d, "f")
		release := jam(t, b, plan, faultfs.Stat, func() { _, _ = f.Stat(t.Context()) })
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error)
		go func() { _, err := f.Stat(ctx); done <- err }()
		synctest.Wait()
		cancel()
		if err := <-done; err != context.Canceled {
			t.Errorf("cancelled: %v", err)
		}
		release()
		synctest.Wait()
		if s := membrane.Stats(b); s.Inside != 0 || s.Waiting != 0 {
			t.Errorf("afterwards %+v", s)
		}
	})
}

// TestBulkheadWaits: a listing whose entries nobody takes, or a write whose content does
// not come, does not keep others out.
func TestBulkheadWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d, b, _ := behind(t, 1)
		n := 0
		for _, err := range d.List(t.Context()) {
			check.OK(t, err)
			n++
			_, err := d.Stat(t.Context())
			check.OK(t, err)
		}
		if n != 4 {
			t.Errorf("%d entries", n)
		}
		r, w := io.Pipe()
		done := make(chan error)
		go func() { _, err := d.Replace(t.Context(), "new", r, vfs.If{}); done <- err }()
		for range 3 {
			_, _ = w.Write([]byte("piece"))
			synctest.Wait()
			if s := membrane.Stats(b); s.Inside != 0 {
				t.Errorf("while the content does not come %+v", s)
			}
			_, err := d.Stat(t.Context())
			check.OK(t, err)
		}
		w.Close()
		check.OK(t, <-done)
		if got := check.Read(t, d, "new"); got != "piecepiecepiece" {
			t.Errorf("content %q", got)
		}
	})
}

// TestBulkheadWriteStuck: when the content of a whole-file write comes, the store is
// stuck. The write is told busy, and what was staged is removed when the store answers.
func TestBulkheadWriteStuck(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d, b, plan := behind(t, 1)
		f := check.FileAt(t, d, "f")
		r, w := io.Pipe()
		done := make(chan error)
		go func() { _, err := d.Replace(t.Context(), "new", r, vfs.If{}); done <- err }()
		synctest.Wait()
		release := jam(t, b, plan, faultfs.Stat, func() { _, _ = f.Stat(t.Context()) })
		_, _ = w.Write([]byte("piece"))
		check.Is(t, "a write to a store that is stuck", <-done, vfs.Busy)
		release()
		synctest.Wait()
		if s := membrane.Stats(b); s.Inside != 0 || s.Waiting != 0 {
			t.Errorf("afterwards %+v", s)
		}
		_, err := d.Lookup(t.Context(), "new")
		check.Is(t, "what was not written", err, vfs.NotFound)
	})
}

// TestBulkheadRevoke: a revoke does not wait for waiting calls.
func TestBulkheadRevoke(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, raw := check.Store(t, check.Sample)
		plan, b := new(faultfs.Plan), membrane.NewBulkhead(1)
		d, c := check.Controlled(t, membrane.Guarded(faultfs.New(raw, plan), nil, membrane.Guard{Bulkhead: b}))
		f := check.FileAt(t, d, "f")
		release := jam(t, b, plan, faultfs.Stat, func() { _, _ = f.Stat(t.Context()) })
		done := make(chan error)
		go func() { done <- d.Remove(t.Context(), "f", vfs.If{}) }()
		synctest.Wait()
		begun := time.Now()
		check.OK(t, c.Revoke())
		if took := time.Since(begun); took != 0 {
			t.Errorf("the revoke took %v", took)
		}
		if err := <-done; err == nil {
			t.Error("what waited was done after the revoke")
		}
		release()
	})
}

// TestBulkheadClose: a close that the store does not answer blocks nobody.
func TestBulkheadClose(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d, _, plan := behind(t, 1)
		c, err := vfs.Open(t.Context(), check.FileAt(t, d, "f"))
		check.OK(t, err)
		p := plan.Pause(faultfs.Close, faultfs.Before, 1)
		check.OK(t, c.Close())
		<-p.Reached()
		_, err = d.Stat(t.Context())
		check.OK(t, err)
		p.Resume()
	})
}

// TestMountsAreApart: each mount has a bulkhead of its own. A guarded namespace has no
// other one.
func TestMountsAreApart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, one := check.Store(t, check.Sample)
		_, other := check.Store(t, check.Sample)
		plan, free := new(faultfs.Plan), make(chan struct{})
		ns := check.Compose(t, map[string]vfs.Dir{"stuck": faultfs.New(one, plan), "well": other})
		d := membrane.Guarded(ns.Root(), nil, membrane.Guard{Bulkhead: membrane.NewBulkhead(1)})
		stuck, well := check.FileAt(t, d, "stuck/f"), check.FileAt(t, d, "well/f")
		var inside atomic.Int64
		plan.Watch(func(op faultfs.Op, stage faultfs.Stage) {
			if op == faultfs.ReadAt && stage == faultfs.Before {
				inside.Add(1)
				<-free
			}
		})
		const calls = 2000
		told := make(chan error, calls)
		for range calls {
			go func() {
				_, err := stuck.ReadAt(t.Context(), make([]byte, 4), 0)
				told <- err
			}()
		}
		for range calls - membrane.MaxInside {
			check.Is(t, "a read of what is stuck", <-told, vfs.Busy)
		}
		if inside.Load() != membrane.MaxInside {
			t.Errorf("%d were inside", inside.Load())
		}
		var got bytes.Buffer
		p := make([]byte, 7)
		_, err := well.ReadAt(t.Context(), p, 0)
		check.OK(t, err)
		if got.Write(p); got.String() != "content" {
			t.Errorf("read %q", got.String())
		}
		close(free)
		for range membrane.MaxInside {
			check.OK(t, <-told)
		}
	})
}

// turned is a context with a turn of m.
func turned(t testing.TB, m *meter.Meter) (ctx context.Context, end func()) {
	t.Helper()
	ctx, turn, err := m.Begin(t.Context(), meter.Work)
	check.OK(t, err)
	return ctx, turn.End
}

// TestBulkheadShares: a grant whose calls do not end leaves room for the others, which
// are not affected.
func TestBulkheadShares(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d, b, plan := behind(t, 8)
		h := meter.NewHost(nil)
		greedy, honest := h.Grant("greedy", nil), h.Grant("honest", nil)
		f, other := check.FileAt(t, d, "f"), check.FileAt(t, d, "a/f")
		free := make(chan struct{})
		plan.Watch(func(op faultfs.Op, stage faultfs.Stage) {
			if op == faultfs.Version && stage == faultfs.Before {
				<-free
			}
		})
		told := make(chan error)
		for range 100 {
			go func() {
				ctx, end := turned(t, greedy)
				defer end()
				_, err := vfs.VersionOf(ctx, f)
				told <- err
			}()
		}
		synctest.Wait()
		if s := membrane.Stats(b); s.Inside != 4 || s.Waiting != 96 {
			t.Errorf("with one grant alone %+v", s)
		}
		for range 100 {
			begun := time.Now()
			ctx, end := turned(t, honest)
			_, err := other.Stat(ctx)
			check.OK(t, err)
			end()
			if took := time.Since(begun); took > 10*time.Millisecond { // for its turn, at most
				t.Errorf("another grant waited %v", took)
			}
			time.Sleep(20 * time.Millisecond)
		}
		for range 96 {
			check.Is(t, "beyond its share", <-told, vfs.Busy)
		}
		close(free)
		for range 4 {
			check.OK(t, <-told)
		}
	})
}

// TestBulkheadTurns: each grant has its turns of a slow store, and so has each share of a
// grant, however many calls another has waiting.
func TestBulkheadTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d, _, plan := behind(t, 2)
		h := meter.NewHost(nil)
		crowd, one := h.Grant("crowd", nil), h.Grant("one", nil)
		loud, quiet := crowd.Part("loud"), crowd.Part("quiet")
		f := check.FileAt(t, d, "f")
		plan.Watch(func(op faultfs.Op, stage faultfs.Stage) {
			if op == faultfs.Stat && stage == faultfs.Before {
				time.Sleep(10 * time.Millisecond)
			}
		})
		look := func(m *meter.Meter) time.Duration {
			begun := time.Now()
			ctx, end := turned(t, m)
			defer end()
			_, err := f.Stat(ctx)
			check.OK(t, err)
			return time.Since(begun)
		}
		for range 100 {
			go look(loud)
		}
		synctest.Wait()
		for range 3 {
			if took := look(one); took > 40*time.Millisecond {
				t.Errorf("another grant waited %v", took)
			}
			if took := look(quiet); took > 40*time.Millisecond {
				t.Errorf("another share waited %v", took)
			}
		}
		time.Sleep(time.Minute)
	})
}
