package vfs_test

import (
	"testing"

	"capd/vfs"
)

// TestWatchBeforeRoute: who watched before the host controlled a route on the
// way is told all the same, and nobody else is.
func TestWatchBeforeRoute(t *testing.T) {
	d, c, _ := guarded(t, sample)
	derived, _ := controlled(t, d)
	told := 0
	for _, v := range []vfs.Dir{dirAt(t, d, "a/b"), dirAt(t, derived, "a/b/c"), dirAt(t, derived, "a")} {
		vfs.OnRevoke(v, func(err error) { is(t, "told", err, vfs.Revoked); told++ })
	}
	vfs.OnRevoke(dirAt(t, d, "z"), func(error) { t.Error("told of another") })
	vfs.OnRevoke(d, func(error) { t.Error("told of what is below") })
	ok(t, child(t, c, "a", "b").Revoke())
	if told != 2 {
		t.Errorf("told %d", told)
	}
	ok(t, child(t, c, "a").Revoke())
	if told != 3 {
		t.Errorf("told %d", told)
	}
}

// TestLockOutlivesControl: also one that is further down, and one to come.
func TestLockOutlivesControl(t *testing.T) {
	d, c, _ := guarded(t, sample)
	b := child(t, c, "a", "b")
	ok(t, b.SetWritable(false))
	b.Release()
	is(t, "put", put(t.Context(), d, "a/b/f", "x"), vfs.ReadOnly)
	is(t, "remove an ancestor", d.Rename(t.Context(), "a", d, "g", vfs.If{}, vfs.If{}), vfs.Busy)
	b = child(t, c, "a", "b")
	ok(t, b.SetWritable(true))
	b.Release()
	if n := vfs.Below(c.Gate); n != 0 {
		t.Errorf("%d routes are left", n)
	}
}

func TestCompositesGo(t *testing.T) {
	d, c, _ := guarded(t, sample)
	derived, own := controlled(t, d)
	b := dirAt(t, derived, "a/b")
	for range 5 {
		route := child(t, c, "a")
		ok(t, own.SetWritable(false))
		is(t, "by its own gate", put(t.Context(), b, "f", "x"), vfs.ReadOnly)
		ok(t, own.SetWritable(true))
		ok(t, route.SetWritable(false))
		is(t, "by the route", put(t.Context(), b, "f", "x"), vfs.ReadOnly)
		ok(t, route.SetWritable(true))
		if n := vfs.Composites(own.Gate); n != 1 {
			t.Errorf("%d composites", n)
		}
		route.Release()
		ok(t, put(t.Context(), b, "f", "x"))
	}
	if n := vfs.Composites(own.Gate); n != 0 {
		t.Errorf("%d composites are left", n)
	}
}

// TestEnterLate: what was known of a gate when a change was found to be allowed
// is not good enough to begin it.
func TestEnterLate(t *testing.T) {
	d, c, _ := guarded(t, sample)
	_, own := controlled(t, d)
	if !vfs.EnterLate(own.Gate, func() {}) {
		t.Error("refused for nothing")
	}
	for what, f := range map[string]func(){
		"locked":  func() { ok(t, c.SetWritable(false)) },
		"a route": func() { child(t, own, "a") },
		"above":   func() { child(t, c, "a") },
	} {
		if vfs.EnterLate(own.Gate, f) {
			t.Errorf("%s: entered", what)
		}
	}
	_, other, _ := guarded(t, sample)
	gate := vfs.NewGate()
	if vfs.EnterLate(gate, gate.Release) {
		t.Error("entered a gate that is gone")
	}
	if vfs.EnterLate(other.Gate, func() { ok(t, other.Revoke()) }) {
		t.Error("entered after a revoke")
	}
}
