package vfs_test

import (
	"testing"
	"testing/synctest"
	"time"

	"capd/vfs"
)

func child(t testing.TB, c *vfs.Control, names ...string) *vfs.Control {
	t.Helper()
	for i, name := range names {
		next, err := c.Child(t.Context(), name)
		ok(t, err)
		if i > 0 {
			c.Release()
		}
		c = next
	}
	return c
}

// TestRouteBindsEveryView is the AND along a route, for views from before and
// after, and for those that came through another gate.
func TestRouteBindsEveryView(t *testing.T) {
	d, c, _ := guarded(t, sample)
	through, _ := controlled(t, d)
	early := []vfs.Dir{dirAt(t, d, "a/b"), dirAt(t, through, "a/b")}
	derived, _ := controlled(t, early[0])
	deeper, _ := controlled(t, dirAt(t, derived, "c"))
	early = append(early, derived)

	b := child(t, c, "a", "b")
	late := []vfs.Dir{dirAt(t, d, "a/b"), dirAt(t, through, "a/b"), dirAt(t, derived, "c"), deeper}
	lateDerived, lateControl := controlled(t, late[0])
	lateSub, _ := controlled(t, dirAt(t, lateDerived, "c"))
	all := append(append(early, late...), lateDerived, lateSub)
	told := 0
	for _, v := range all {
		vfs.OnRevoke(v, func(err error) { is(t, "told", err, vfs.Revoked); told++ })
	}
	bottom := child(t, b, "c")
	try := func(what string, reads, changes vfs.Code) {
		t.Helper()
		for _, v := range all {
			_, err := v.Lookup(t.Context(), "f")
			is(t, what+": lookup", err, reads)
			is(t, what+": put", put(t.Context(), v, "f", what), changes)
		}
	}
	try("at first", "", "")
	ok(t, b.SetWritable(false))
	try("locked", "", vfs.ReadOnly)
	is(t, "put past the route", put(t.Context(), d, "a/f", "x"), "")
	is(t, "put by a deep path", put(t.Context(), d, "a/b/f", "x"), vfs.ReadOnly)
	is(t, "put by a deeper path", put(t.Context(), through, "a/b/c/f", "x"), vfs.ReadOnly)
	ok(t, b.SetWritable(true))
	b.SetReadable(false)
	try("unreadable", vfs.Denied, "")
	b.SetReadable(true)
	ok(t, bottom.SetWritable(false))
	is(t, "at the bottom", put(t.Context(), deeper, "f", "x"), vfs.ReadOnly)
	is(t, "above it", put(t.Context(), lateDerived, "f", "x"), "")
	ok(t, lateControl.SetWritable(false))
	is(t, "the derived", put(t.Context(), lateDerived, "f", "x"), vfs.ReadOnly)
	is(t, "what it was derived from", put(t.Context(), late[0], "f", "x"), "")
	ok(t, bottom.Revoke())
	_, err := deeper.Stat(t.Context())
	is(t, "revoked at the bottom", err, vfs.Revoked)
	_, err = derived.Stat(t.Context())
	is(t, "revoked below", err, "")
	ok(t, b.Revoke())
	try("revoked", vfs.Revoked, vfs.Revoked)
	if told != len(all) {
		t.Errorf("told %d of %d", told, len(all))
	}
	_, err = d.Stat(t.Context())
	is(t, "above the route", err, "")
	_, err = dirAt(t, d, "a").Stat(t.Context())
	is(t, "at the parent", err, "")
}

// TestRevokeAfterRouteIsGone: what was bound by a route that is no more is
// bound by the gate above still.
func TestRevokeAfterRouteIsGone(t *testing.T) {
	d, c, _ := guarded(t, sample)
	through, _ := controlled(t, d)
	child := child(t, c, "a")
	views := []vfs.Dir{dirAt(t, d, "a"), dirAt(t, d, "a/b"), dirAt(t, through, "a"), dirAt(t, through, "a/b")}
	told := 0
	for _, v := range views {
		_, err := v.Stat(t.Context())
		ok(t, err)
		vfs.OnRevoke(v, func(error) { told++ })
	}
	child.Release()
	for _, v := range views {
		_, err := v.Stat(t.Context())
		ok(t, err)
	}
	ok(t, c.Revoke())
	for _, v := range views {
		_, err := v.Stat(t.Context())
		is(t, "revoked", err, vfs.Revoked)
	}
	if told != len(views) {
		t.Errorf("told %d of %d", told, len(views))
	}
}

func TestControlledStays(t *testing.T) {
	d, c, raw := guarded(t, sample)
	ro, err := vfs.ReadOnlyDir(d)
	ok(t, err)
	b := child(t, c, "a", "b")
	f := child(t, c, "f")
	before := picture(t, raw)
	derived, _ := controlled(t, d)
	a := dirAt(t, d, "a")
	derivedA, _ := controlled(t, a)
	other, _, _ := guarded(t, sample)
	try := func(want vfs.Code) {
		t.Helper()
		z := dirAt(t, d, "z")
		version, err := vfs.VersionOf(t.Context(), fileAt(t, d, "f"))
		ok(t, err)
		for what, err := range map[string]error{
			"remove":              d.Remove(t.Context(), "f", vfs.If{}),
			"remove, derived":     derived.Remove(t.Context(), "f", vfs.If{}),
			"rename":              d.Rename(t.Context(), "f", z, "g", vfs.If{}, vfs.If{}),
			"rename an ancestor":  d.Rename(t.Context(), "a", z, "g", vfs.If{}, vfs.If{}),
			"rename b":            a.Rename(t.Context(), "b", z, "g", vfs.If{}, vfs.If{}),
			"rename b, derived":   derivedA.Rename(t.Context(), "b", z, "g", vfs.If{}, vfs.If{}),
			"rename b, walked":    dirAt(t, derived, "a").Rename(t.Context(), "b", d, "g", vfs.If{}, vfs.If{}),
			"overwrite":           a.Rename(t.Context(), "f", d, "f", vfs.If{}, vfs.If{Is: version}),
			"overwrite, derived":  derivedA.Rename(t.Context(), "f", derived, "f", vfs.If{}, vfs.If{Is: version}),
			"to another":          d.Rename(t.Context(), "f", other, "g", vfs.If{}, vfs.If{}),
			"from another":        other.Rename(t.Context(), "f", d, "f", vfs.If{}, vfs.If{Is: version}),
			"an ancestor as that": other.Rename(t.Context(), "f", d, "a", vfs.If{}, vfs.If{}),
		} {
			if want == "" {
				continue
			}
			is(t, what, err, want)
		}
	}
	try(vfs.Busy)
	is(t, "through readOnly", ro.Remove(t.Context(), "f", vfs.If{}), vfs.ReadOnly)
	if now := picture(t, raw); now != before {
		t.Errorf("changed to %s", now)
	}
	// What lies below what is controlled, and content, may change.
	is(t, "put", put(t.Context(), d, "f", "content"), "")
	is(t, "below", dirAt(t, d, "a/b").Remove(t.Context(), "f", vfs.If{}), "")

	// A lock outlives its control, however the controls are released.
	ok(t, b.SetWritable(false))
	b.Release()
	is(t, "locked", put(t.Context(), d, "a/b/new", "x"), vfs.ReadOnly)
	is(t, "locked ancestor", d.Rename(t.Context(), "a", d, "g", vfs.If{}, vfs.If{}), vfs.Busy)
	again := child(t, c, "a", "b")
	if own, _ := again.Writable(); own {
		t.Error("the lock was forgotten")
	}
	ok(t, again.SetWritable(true))
	again.Release()
	f.Release()
	is(t, "unlocked", d.Rename(t.Context(), "a", d, "g", vfs.If{}, vfs.If{}), "")
	is(t, "released", d.Remove(t.Context(), "f", vfs.If{}), "")
}

// TestRoutesOfTwoGates: where a path passes routes of several gates all of them
// bind, and a gate that is derived there tells it.
func TestRoutesOfTwoGates(t *testing.T) {
	outer, oc, _ := guarded(t, sample)
	inner, ic := controlled(t, outer)
	ofOuter, ofInner := child(t, oc, "a"), child(t, ic, "a")
	a := dirAt(t, inner, "a")
	_, derived := controlled(t, a)
	for what, route := range map[string]*vfs.Control{"the outer": ofOuter, "the inner": ofInner} {
		ok(t, route.SetWritable(false))
		is(t, what+", locked", put(t.Context(), a, "f", "x"), vfs.ReadOnly)
		if own, effective := derived.Writable(); !own || effective || !derived.Locked() {
			t.Errorf("%s, locked: own %v, effective %v, locked %v", what, own, effective, derived.Locked())
		}
		ok(t, route.SetWritable(true))
		is(t, what+", unlocked", put(t.Context(), a, "f", "x"), "")
		if own, effective := derived.Writable(); !own || !effective {
			t.Errorf("%s, unlocked: own %v, effective %v", what, own, effective)
		}
	}
}

// TestRouteThatWillExpire: so does one that is controlled by nobody, but will expire.
func TestRouteThatWillExpire(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d, c, _ := guarded(t, sample)
		a := child(t, c, "a")
		a.ExpireAt(time.Now().Add(time.Hour))
		a.Release()
		is(t, "rename", d.Rename(t.Context(), "a", d, "g", vfs.If{}, vfs.If{}), vfs.Busy)
		view := dirAt(t, d, "a")
		time.Sleep(2 * time.Hour)
		is(t, "put", put(t.Context(), view, "f", "x"), vfs.Expired)
	})
}

// TestGuestDoesNotPin: a gate that a guest derived at a route controls nothing.
func TestGuestDoesNotPin(t *testing.T) {
	d, c, _ := guarded(t, sample)
	a := child(t, c, "a")
	_, guests := controlled(t, dirAt(t, d, "a"))
	a.Release()
	is(t, "rename", d.Rename(t.Context(), "a", d, "g", vfs.If{}, vfs.If{}), "")
	guests.Release()
}

func TestPutThroughTheParent(t *testing.T) {
	d, c, raw := guarded(t, sample)
	f := child(t, c, "f")
	ok(t, f.SetWritable(false))
	h := hold(t, d)
	is(t, "put", put(t.Context(), d, "f", "x"), vfs.ReadOnly)
	is(t, "write", ops[11].do(t.Context(), h), vfs.ReadOnly)
	is(t, "remove", d.Remove(t.Context(), "f", vfs.If{}), vfs.ReadOnly)
	is(t, "rename", d.Rename(t.Context(), "f", d, "g", vfs.If{}, vfs.If{}), vfs.ReadOnly)
	ok(t, raw.Remove(t.Context(), "f", vfs.If{})) // the host itself
	_, err := d.Create(t.Context(), "f")
	is(t, "create", err, vfs.ReadOnly)
	ok(t, f.SetWritable(true))
	f.SetReadable(false)
	is(t, "blind put", put(t.Context(), d, "f", "x"), "")
	_, err = d.Replace(t.Context(), "f", nil, vfs.If{Is: vfs.Version{1}})
	is(t, "a condition is an oracle", err, vfs.Denied)
	is(t, "also of remove", d.Remove(t.Context(), "f", vfs.If{Is: vfs.Version{1}}), vfs.Denied)
	is(t, "rename must read", d.Rename(t.Context(), "f", d, "g", vfs.If{}, vfs.If{}), vfs.Denied)
}

func TestChild(t *testing.T) {
	_, c, _ := guarded(t, sample, vfs.Guard{Hides: vfs.MatchPaths(func(path string) bool { return path == "z" })})
	for name, want := range map[string]vfs.Code{
		"f": "", "a": "", "l": "", "z": vfs.NotFound, "missing": vfs.NotFound, "F": vfs.NotFound, "..": vfs.Invalid, "a/f": vfs.Invalid,
	} {
		got, err := c.Child(t.Context(), name)
		is(t, name, err, want)
		if err == nil {
			got.Release()
			got.Release()
		}
	}
	f := child(t, c, "f")
	_, err := f.Child(t.Context(), "x")
	is(t, "below a file", err, vfs.NotDir)

	// Another membrane over the same store is another route.
	s, raw := store(t, sample)
	one, oneC := controlled(t, vfs.Guarded(raw, nil))
	two, _ := controlled(t, vfs.Guarded(s.Root(), nil))
	ok(t, child(t, oneC, "f").SetWritable(false))
	is(t, "one", put(t.Context(), one, "f", "x"), vfs.ReadOnly)
	is(t, "two", put(t.Context(), two, "f", "x"), "")
	is(t, "a membrane around one", put(t.Context(), vfs.Guarded(one, nil), "f", "x"), vfs.ReadOnly)
	is(t, "remove through two", two.Remove(t.Context(), "f", vfs.If{}), "")
}
