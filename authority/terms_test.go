package authority_test

import (
	"testing"
	"time"

	"capd/authority"
	"capd/meter"
	"capd/operator"
	"capd/vfs"
	"capd/vfs/membrane"
)

// wanted makes the grants of the configuration those of agent on a, on terms, and returns the only one.
func (h *lasting) wanted(t operator.Terms) (id string, secret []byte) {
	h.t.Helper()
	all, err := h.Reconcile(h.t.Context(), operator.ByConfig, []authority.Wanted{{Guest: "agent", Path: "a", Terms: t}})
	ok(h.t, err)
	if all[0].Secret != nil {
		secret = all[0].Secret[:]
	}
	return all[0].ID, secret
}

// TestTermsChangeInPlace: other terms hold at once for what is open and after a restart, and the locator stays.
func TestTermsChangeInPlace(t *testing.T) {
	h, w := newTimed(t)
	id, secret := h.wanted(operator.Terms{Expires: time.Hour})
	held := h.dir(secret)
	shared, _ := h.share(secret, "b")
	again := func(what string, terms operator.Terms) {
		t.Helper()
		if now, made := h.wanted(terms); now != id || made != nil {
			t.Errorf("%s: it is %s, and its secret is %x", what, now, made)
		}
	}
	stat := func(what string, d vfs.Dir, want vfs.Code) {
		t.Helper()
		_, err := d.Stat(t.Context())
		is(t, what, err, want)
	}

	again("later", operator.Terms{Expires: 3 * time.Hour, Limits: meter.Limits{meter.Shares: 7, meter.StoredBytes: 100}})
	w.advance(2 * time.Hour)
	h.Tick()
	stat("after the first hour", held, "")
	h.again(w)
	h.restored("and a restart", secret, "")
	held = h.dir(secret)
	m, err := h.Meter(t.Context(), id)
	ok(t, err)
	if n := m.Limit(meter.Shares); n != 7 {
		t.Errorf("it may share %d times", n)
	}

	again("never", operator.Terms{})
	if n := m.Limit(meter.Shares); n != meter.GrantLimits()[meter.Shares] {
		t.Errorf("without a limit it may share %d times", n)
	}
	if n := m.Limit(meter.StoredBytes); n != 0 {
		t.Errorf("without a limit it may store %d bytes", n)
	}
	_, err = h.SetLimits("agent", meter.Limits{meter.StoredBytes: 100})
	ok(t, err)
	again("without what an operator has limited", operator.Terms{})
	if n := m.Limit(meter.StoredBytes); n != 0 {
		t.Errorf("without what an operator has limited it may store %d bytes", n)
	}
	w.advance(1000 * time.Hour)
	h.Tick()
	stat("without an end", held, "")

	below := h.dir(shared)
	again("fewer rights", operator.Terms{ReadOnly: true})
	stat("what was open with others", held, vfs.Stale)
	stat("and below it", below, vfs.Stale)
	held, below = h.dir(secret), h.dir(shared)
	for _, d := range []vfs.Dir{held, below} {
		_, err = d.Mkdir(t.Context(), "new")
		is(t, "without the right", err, vfs.ReadOnly)
	}
	again("the same", operator.Terms{ReadOnly: true})
	stat("what was open with the same", held, "")
	again("more rights", operator.Terms{})
	_, err = h.dir(shared).Mkdir(t.Context(), "new")
	ok(t, err)

	again("uses", operator.Terms{Uses: 2})
	h.restored("one use", secret, "")
	again("as many", operator.Terms{Uses: 2})
	h.restored("two uses", secret, "")
	h.restored("three uses", secret, vfs.Expired)
	again("more", operator.Terms{Uses: 3})
	h.restored("the third", secret, "")
	h.again(w)
	again("as many after a restart", operator.Terms{Uses: 3})
	h.restored("the fourth", secret, vfs.Expired)
	again("any number", operator.Terms{})
	held = h.dir(secret)

	again("earlier", operator.Terms{Expires: time.Minute})
	stat("at once", held, vfs.Expired)
	h.Tick()
	h.states("earlier", operator.Expired, operator.Expired)
	if now, made := h.wanted(operator.Terms{}); now == id || made == nil {
		t.Errorf("it has ended, and is given again as %s", now)
	}
}

// TestTermsOfWhatIsBeingLoaded: terms that change while a grant becomes resident hold too.
func TestTermsOfWhatIsBeingLoaded(t *testing.T) {
	h := newLasting(t)
	_, secret := h.wanted(operator.Terms{})
	for i := range 20 {
		h.restart()
		terms := operator.Terms{ReadOnly: i%2 == 0}
		done := make(chan error, 1)
		go func() {
			n, _, err := h.Restore(t.Context(), secret)
			if err == nil {
				n.Close()
			}
			done <- err
		}()
		h.wanted(terms)
		if err := <-done; err != nil && vfs.CodeOf(err) != vfs.Stale {
			t.Fatal(err)
		}
		want := membrane.AllRights
		if terms.ReadOnly {
			want &^= membrane.ChangeRights
		}
		at, _ := membrane.PlaceOf(h.dir(secret))
		if at.Rights != want {
			t.Fatalf("it has %v, want %v", at.Rights, want)
		}
	}
}
