package authority_test

import (
	"sync/atomic"
	"testing"
	"time"

	"capd/meter"
	"capd/operator"
	"capd/vfs"
	"capd/vfs/membrane"
)

// wallClock is a wall clock that a test sets. Timers know nothing of it, as of a suspend.
type wallClock struct{ ns atomic.Int64 }

func (w *wallClock) now() time.Time           { return time.Unix(0, w.ns.Load()) }
func (w *wallClock) advance(by time.Duration) { w.ns.Add(int64(by)) }

// newTimed returns a host whose grants expire by w.
func newTimed(t *testing.T) (*lasting, *wallClock) {
	w := &wallClock{}
	w.ns.Store(time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC).UnixNano())
	h := newLasting(t)
	h.again(w)
	return h, w
}

// again starts h again, with a clock that knows only w.
func (h *lasting) again(w *wallClock) {
	h.t.Helper()
	h.clock = membrane.NewClock(w.now)
	h.restart()
}

// states checks the states of all grants, in the order of their ids.
func (h *lasting) states(what string, want ...operator.State) {
	h.t.Helper()
	all, err := h.Grants("", 100)
	ok(h.t, err)
	for i, g := range all {
		if i >= len(want) || g.State != want[i] {
			h.t.Errorf("%s: %s is %s, want %v", what, g.ID, g.State, want)
		}
	}
	if len(all) != len(want) {
		h.t.Errorf("%s: %d grants, want %d", what, len(all), len(want))
	}
}

// TestGrantExpires: a grant ends at its time with what was shared from it, in use or not, though no timer has run.
func TestGrantExpires(t *testing.T) {
	h, w := newTimed(t)
	secret := h.grant("visitor", "a", operator.Terms{Expires: 2 * time.Hour})
	other := h.grant("other", "a", operator.Terms{})
	shared, _ := h.share(secret, "b")
	held, below := h.dir(secret), h.dir(shared)
	told := make(chan error, 2)
	membrane.OnRevoke(below, func(err error) { told <- err })
	w.advance(2*time.Hour - time.Second)
	h.Tick()
	h.restored("in time", secret, "")
	h.restored("its share in time", shared, "")
	h.states("in time", operator.Active, operator.Active, operator.Active)

	w.advance(3 * time.Hour)
	_, err := held.Lookup(t.Context(), "b")
	is(t, "what is held", err, vfs.Expired)
	_, err = below.Lookup(t.Context(), "c")
	is(t, "what is held of its share", err, vfs.Expired)
	is(t, "told", <-told, vfs.Expired)
	h.restored("late", secret, vfs.Expired)
	h.restored("its share late", shared, vfs.Expired)
	h.restored("the other", other, "")
	h.Tick()
	h.states("late", operator.Expired, operator.Active, operator.Expired)
	_, _, err = h.Share(t.Context(), held)
	is(t, "a new share", err, vfs.Expired)
	_, err = h.Control(t.Context(), "g1")
	is(t, "its control", err, vfs.Expired)
	h.again(w)
	h.states("after a restart", operator.Expired, operator.Active, operator.Expired)
	h.restored("after a restart", secret, vfs.Expired)
	h.restored("the other after a restart", other, "")
}

// TestExpiresWhileDown: it makes no difference whether the host ran, and a clock that was set back gives nothing back.
func TestExpiresWhileDown(t *testing.T) {
	h, w := newTimed(t)
	secret := h.grant("visitor", "a", operator.Terms{Expires: 2 * time.Hour})
	h.restored("at first", secret, "")
	h.end()
	w.advance(3 * time.Hour)
	h.clock = membrane.NewClock(w.now)
	h.start()
	h.restored("before any tick", secret, vfs.Expired)

	second := h.grant("another", "a", operator.Terms{Expires: 2 * time.Hour})
	w.advance(3 * time.Hour)
	h.Tick()
	w.advance(-24 * time.Hour)
	h.restored("set back", second, vfs.Expired)
	third := h.grant("late", "a", operator.Terms{Expires: time.Hour})
	h.again(w)
	h.restored("set back, and a restart", second, vfs.Expired)
	h.restored("made when the clock was set back", third, "")
	w.advance(25 * time.Hour)
	h.restored("and then", third, vfs.Expired)
	w.advance(-24 * time.Hour) // before anything was noted but the time
	h.again(w)
	h.states("the rows", operator.Expired, operator.Expired, operator.Active)
	h.restored("after a restart", third, vfs.Expired)
}

// TestUnused: a grant that nobody uses ends, and one that a connection holds does not.
func TestUnused(t *testing.T) {
	h, w := newTimed(t)
	terms := operator.Terms{Unused: time.Hour}
	never, now, held := h.grant("never", "a", terms), h.grant("now", "a", terms), h.grant("held", "a", terms)
	part, _ := h.share(h.grant("part", "a", terms), "b")
	connected := func(secret []byte) (release func()) {
		n, m, err := h.Restore(t.Context(), secret)
		ok(t, err)
		ok(t, m.Take(meter.Connections, 1))
		return func() { m.Give(meter.Connections, 1); n.Close() }
	}
	letGo, partGo := connected(held), connected(part)
	for range 4 {
		w.advance(40 * time.Minute)
		h.Tick()
		h.restored("used now and then", now, "")
	}
	h.states("after a while", operator.Expired, operator.Active, operator.Active, operator.Active, operator.Active)
	h.restored("never used", never, vfs.Expired)
	letGo()
	partGo()
	w.advance(59 * time.Minute)
	h.restored("let go of", held, "")
	h.restored("a share let go of", part, "")
	w.advance(61 * time.Minute)
	h.restored("let go of for long", held, vfs.Expired) // nothing has ticked
	h.again(w)
	for what, secret := range map[string][]byte{"let go of": held, "used now and then": now, "a share": part} {
		h.restored(what+", after a restart", secret, vfs.Expired)
	}
}

func TestTermsOfTime(t *testing.T) {
	h, _ := newTimed(t)
	for _, terms := range []operator.Terms{{Expires: -1}, {Unused: -time.Hour}, {Uses: -1}} {
		_, _, err := h.GrantOn(t.Context(), "x", "a", terms)
		is(t, "below 0", err, vfs.Invalid)
	}
	g, _, err := h.GrantOn(t.Context(), "x", "a", operator.Terms{Expires: time.Hour, Unused: time.Minute, Uses: 3})
	ok(t, err)
	if want := time.Date(2030, 1, 1, 1, 0, 0, 0, time.UTC).UnixMilli(); g.ExpiresMs != want || g.UnusedMs != 60_000 || g.UsesLeft != 3 {
		t.Errorf("it is described as %+v", g)
	}
}

// TestEndedByTime: who waits for grants to end, as for what to remove, hears of those that expire, in use or not, and of those
// that expired while no host ran.
func TestEndedByTime(t *testing.T) {
	for what, how := range map[string]func(h *lasting, secret []byte){
		"in use":     func(h *lasting, secret []byte) { h.dir(secret) },
		"not in use": func(*lasting, []byte) {},
		"a restart":  func(h *lasting, _ []byte) { h.restart() },
	} {
		for _, terms := range []operator.Terms{{Expires: time.Hour}, {Unused: time.Hour}} {
			h, w := newTimed(t)
			secret := h.grant("visitor", "a", terms)
			how(h, secret)
			w.advance(2 * time.Hour)
			h.gone.Store(0)
			h.Tick() // ends who is in use
			h.Tick()
			if h.states(what, operator.Expired); h.gone.Load() != 1 {
				t.Errorf("%s, %+v: told %d times", what, terms, h.gone.Load())
			}
		}
	}
}
