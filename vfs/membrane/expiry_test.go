package membrane_test

import (
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"capd/vfs"
	"capd/vfs/membrane"
	"capd/vfs/vfstest/check"
)

func TestExpiry(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d, c, _ := check.Guarded(t, check.Sample)
		h := check.Hold(t, d)
		sub, below := check.Controlled(t, check.DirAt(t, d, "a"))
		told := false
		membrane.OnRevoke(sub, func(err error) { check.Is(t, "told", err, vfs.Expired); told = true })
		c.ExpireAt(time.Now().Add(time.Hour))
		c.ExpireAt(time.Now().Add(time.Minute))
		c.ExpireAt(time.Now().Add(time.Hour)) // it was to expire before
		below.ExpireAt(time.Now().Add(2 * time.Minute))
		time.Sleep(time.Minute - 1)
		synctest.Wait()
		check.TryAll(t, "in time", h, "", "")
		time.Sleep(1)
		synctest.Wait()
		check.TryAll(t, "late", h, vfs.Expired, vfs.Expired)
		if _, err := sub.Stat(t.Context()); vfs.CodeOf(err) != vfs.Expired || !told || !below.Revoked() {
			t.Errorf("below: %v, told %v", err, told)
		}
		c.ExpireAt(time.Now().Add(time.Hour))
		check.Is(t, "revived", func() error { _, err := d.Stat(t.Context()); return err }(), vfs.Expired)
		check.OK(t, c.Revoke())
		_, err := d.Stat(t.Context())
		check.Is(t, "revoked then", err, vfs.Revoked)
	})
}

// wall is a wall clock that a test sets.
type wall struct{ ns atomic.Int64 }

func newWall() *wall {
	w := &wall{}
	w.set(time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC))
	return w
}

func (w *wall) now() time.Time           { return time.Unix(0, w.ns.Load()) }
func (w *wall) set(t time.Time)          { w.ns.Store(t.UnixNano()) }
func (w *wall) advance(by time.Duration) { w.ns.Add(int64(by)) }

// onClock returns a tree whose gates expire by c, and the control of its root.
func onClock(t testing.TB, c *membrane.Clock) (vfs.Dir, *membrane.Control) {
	t.Helper()
	_, raw := check.Store(t, check.Sample)
	g := membrane.NewGateOn(c)
	defer g.Release()
	return check.Controlled(t, membrane.Guarded(raw, g))
}

// TestSetExpiry: a deadline can be set later and taken away, for what is below too, until it is over.
func TestSetExpiry(t *testing.T) {
	w := newWall()
	d, c := onClock(t, membrane.NewClock(w.now))
	sub, below := check.Controlled(t, check.DirAt(t, d, "a"))
	at := func(hours int) time.Time { return w.now().Add(time.Duration(hours) * time.Hour) }
	stat := func(what string, want vfs.Code) {
		t.Helper()
		_, err := sub.Stat(t.Context())
		check.Is(t, what, err, want)
	}
	c.ExpireAt(at(1))
	c.SetExpiry(at(3))
	w.advance(2 * time.Hour)
	stat("later", "")
	c.SetExpiry(time.Time{})
	if _, ok := below.Deadline(); ok {
		t.Error("what is below has a deadline")
	}
	w.advance(1000 * time.Hour)
	stat("never", "")
	below.SetExpiry(at(1))
	c.SetExpiry(at(2))
	if until, _ := below.Deadline(); !until.Equal(at(1)) {
		t.Errorf("what is below expires at %v", until)
	}
	c.SetExpiry(at(-1))
	stat("earlier", vfs.Expired)
	c.SetExpiry(at(5))
	stat("after its end", vfs.Expired)
}

// TestExpiresWhileSuspended: while a machine is suspended no timer runs, but the wall clock goes on.
func TestExpiresWhileSuspended(t *testing.T) {
	w := newWall()
	d, c := onClock(t, membrane.NewClock(w.now))
	h := check.Hold(t, d)
	sub, _ := check.Controlled(t, check.DirAt(t, d, "a"))
	told := 0
	membrane.OnRevoke(sub, func(err error) { check.Is(t, "told", err, vfs.Expired); told++ })
	c.ExpireAt(w.now().Add(2 * time.Hour))
	w.advance(2*time.Hour - time.Millisecond)
	check.TryAll(t, "in time", h, "", "")
	if c.Expire() || told > 0 {
		t.Error("it has expired too early")
	}
	w.advance(3 * time.Hour)
	if !c.Revoked() {
		t.Error("its control does not see that it has expired")
	}
	check.Is(t, "what the control sees", c.Ended(), vfs.Expired)
	check.TryAll(t, "after the suspend", h, vfs.Expired, vfs.Expired)
	check.Is(t, "below", look(t.Context(), sub, "f"), vfs.Expired)
	if !c.Expire() || told != 1 {
		t.Errorf("told %d times", told)
	}
}

// TestExpireTells: nobody calls, and those who wait are told all the same.
func TestExpireTells(t *testing.T) {
	w := newWall()
	d, c := onClock(t, membrane.NewClock(w.now))
	told := 0
	membrane.OnRevoke(check.FileAt(t, d, "a/b/f"), func(err error) { check.Is(t, "told", err, vfs.Expired); told++ })
	c.ExpireAt(w.now().Add(time.Minute))
	w.advance(time.Hour)
	if !c.Expire() || told != 1 {
		t.Errorf("told %d times", told)
	}
	membrane.OnRevoke(d, func(err error) { check.Is(t, "told at once", err, vfs.Expired); told++ })
	if told != 2 {
		t.Error("not told at once")
	}
}

// TestClockBack: what has expired stays so when the wall clock is set back, also for a later
// process that was told the time.
func TestClockBack(t *testing.T) {
	w := newWall()
	clock := membrane.NewClock(w.now)
	d, c := onClock(t, clock)
	ends := w.now().Add(time.Hour)
	c.ExpireAt(ends)
	w.advance(2 * time.Hour)
	mark := clock.Now()
	w.advance(-24 * time.Hour)
	check.Is(t, "set back", look(t.Context(), d, "f"), vfs.Expired)
	if now := clock.Now(); now != mark {
		t.Errorf("the clock went from %d to %d", mark, now)
	}
	later := membrane.NewClock(w.now)
	later.Advance(mark)
	d, c = onClock(t, later)
	check.Is(t, "before", look(t.Context(), d, "f"), "")
	c.ExpireAt(ends)
	check.Is(t, "in the next process", look(t.Context(), d, "f"), vfs.Expired)
}

// TestSharesExpireWithParents: what is derived expires with the first of all that it was
// derived from, and what is above does not.
func TestSharesExpireWithParents(t *testing.T) {
	w := newWall()
	in := func(m int) time.Time { return w.now().Add(time.Duration(m) * time.Minute) }
	top, cTop := onClock(t, membrane.NewClock(w.now))
	mid, cMid := check.Controlled(t, check.DirAt(t, top, "a"))
	low, cLow := check.Controlled(t, check.DirAt(t, mid, "b"))
	route := check.Child(t, cTop, "a", "b", "c")
	beyond := check.DirAt(t, low, "c")
	cLow.ExpireAt(in(30))
	cTop.ExpireAt(in(20))
	cMid.ExpireAt(in(40))
	route.ExpireAt(in(10))
	try := func(what string, wants ...vfs.Code) {
		t.Helper()
		for i, d := range []vfs.Dir{top, mid, low, beyond} {
			check.Is(t, what, look(t.Context(), d, []string{"f", "f", "f", "f"}[i]), wants[i])
			check.Is(t, what+", a put", check.Put(t.Context(), d, "f", "x"), wants[i])
		}
	}
	for i, c := range []*membrane.Control{cTop, cMid, cLow} {
		if got, ok := c.Deadline(); !ok || !got.Equal(in(20)) {
			t.Errorf("%d expires at %v", i, got)
		}
	}
	try("at first", "", "", "", "")
	w.advance(10 * time.Minute)
	try("after the route", "", "", "", vfs.Expired)
	w.advance(10 * time.Minute)
	try("after the first", vfs.Expired, vfs.Expired, vfs.Expired, vfs.Expired)

	top, cTop = onClock(t, membrane.NewClock(w.now))
	low, cLow = check.Controlled(t, top)
	cLow.ExpireAt(in(1))
	if _, ok := cTop.Deadline(); ok {
		t.Error("what is above expires too")
	}
	w.advance(time.Hour)
	check.Is(t, "the share", look(t.Context(), low, "f"), vfs.Expired)
	check.Is(t, "what it was made from", look(t.Context(), top, "f"), "")
}

// TestExpiredMeanwhile: a change that was let in before the time was over does not begin
// after it.
func TestExpiredMeanwhile(t *testing.T) {
	w := newWall()
	_, c := onClock(t, membrane.NewClock(w.now))
	c.ExpireAt(w.now().Add(time.Minute))
	if !membrane.EnterLate(c.Gate, func() {}) {
		t.Error("it could not begin in time")
	}
	if membrane.EnterLate(c.Gate, func() { w.advance(time.Hour) }) {
		t.Error("it began")
	}
}

// TestExpiryBesideCalls: calls, deadlines and a clock that goes on. Run with -race.
func TestExpiryBesideCalls(t *testing.T) {
	w := newWall()
	d, c := onClock(t, membrane.NewClock(w.now))
	c.ExpireAt(w.now().Add(time.Second))
	var wg sync.WaitGroup
	for range 4 {
		views, controls := deep(t, d, 1)
		wg.Go(func() {
			for i := 0; ; i++ {
				controls[0].ExpireAt(w.now().Add(time.Duration(2000-i) * time.Millisecond))
				err := look(t.Context(), views[0], "f")
				if vfs.CodeOf(err) == vfs.Expired {
					return
				}
				check.OK(t, err)
				w.advance(time.Millisecond)
			}
		})
	}
	wg.Wait()
	for range 2 {
		check.Is(t, "in the end", look(t.Context(), d, "f"), vfs.Expired)
		w.advance(-time.Hour)
	}
}
