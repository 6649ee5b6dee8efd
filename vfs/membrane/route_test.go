package membrane_test

import (
	"testing"
	"testing/synctest"
	"time"

	"capd/vfs"
	"capd/vfs/membrane"
	"capd/vfs/vfstest/check"
)

// TestRouteBindsEveryView: the rights are the AND along a route, for views from before
// and after, and for those that came through another gate.
func TestRouteBindsEveryView(t *testing.T) {
	d, c, _ := check.Guarded(t, check.Sample)
	through, _ := check.Controlled(t, d)
	early := []vfs.Dir{check.DirAt(t, d, "a/b"), check.DirAt(t, through, "a/b")}
	derived, _ := check.Controlled(t, early[0])
	deeper, _ := check.Controlled(t, check.DirAt(t, derived, "c"))
	early = append(early, derived)

	b := check.Child(t, c, "a", "b")
	late := []vfs.Dir{check.DirAt(t, d, "a/b"), check.DirAt(t, through, "a/b"), check.DirAt(t, derived, "c"), deeper}
	lateDerived, lateControl := check.Controlled(t, late[0])
	lateSub, _ := check.Controlled(t, check.DirAt(t, lateDerived, "c"))
	all := append(append(early, late...), lateDerived, lateSub)
	told := 0
	for _, v := range all {
		membrane.OnRevoke(v, func(err error) { check.Is(t, "told", err, vfs.Revoked); told++ })
	}
	bottom := check.Child(t, b, "c")
	try := func(what string, reads, changes vfs.Code) {
		t.Helper()
		for _, v := range all {
			_, err := v.Lookup(t.Context(), "f")
			check.Is(t, what+": lookup", err, reads)
			check.Is(t, what+": put", check.Put(t.Context(), v, "f", what), changes)
		}
	}
	try("at first", "", "")
	check.OK(t, b.SetWritable(false))
	try("locked", "", vfs.ReadOnly)
	check.Is(t, "put past the route", check.Put(t.Context(), d, "a/f", "x"), "")
	check.Is(t, "put by a deep path", check.Put(t.Context(), d, "a/b/f", "x"), vfs.ReadOnly)
	check.Is(t, "put by a deeper path", check.Put(t.Context(), through, "a/b/c/f", "x"), vfs.ReadOnly)
	check.OK(t, b.SetWritable(true))
	b.SetReadable(false)
	try("unreadable", vfs.Denied, "")
	b.SetReadable(true)
	check.OK(t, bottom.SetWritable(false))
	check.Is(t, "at the bottom", check.Put(t.Context(), deeper, "f", "x"), vfs.ReadOnly)
	check.Is(t, "above it", check.Put(t.Context(), lateDerived, "f", "x"), "")
	check.OK(t, lateControl.SetWritable(false))
	check.Is(t, "the derived", check.Put(t.Context(), lateDerived, "f", "x"), vfs.ReadOnly)
	check.Is(t, "what it was derived from", check.Put(t.Context(), late[0], "f", "x"), "")
	check.OK(t, bottom.Revoke())
	_, err := deeper.Stat(t.Context())
	check.Is(t, "revoked at the bottom", err, vfs.Revoked)
	_, err = derived.Stat(t.Context())
	check.Is(t, "revoked below", err, "")
	check.OK(t, b.Revoke())
	try("revoked", vfs.Revoked, vfs.Revoked)
	if told != len(all) {
		t.Errorf("told %d of %d", told, len(all))
	}
	_, err = d.Stat(t.Context())
	check.Is(t, "above the route", err, "")
	_, err = check.DirAt(t, d, "a").Stat(t.Context())
	check.Is(t, "at the parent", err, "")
}

// TestRevokeAfterRouteIsGone: a view that was bound by a route is still bound by the gate
// above after the route is gone.
func TestRevokeAfterRouteIsGone(t *testing.T) {
	d, c, _ := check.Guarded(t, check.Sample)
	through, _ := check.Controlled(t, d)
	child := check.Child(t, c, "a")
	views := []vfs.Dir{check.DirAt(t, d, "a"), check.DirAt(t, d, "a/b"), check.DirAt(t, through, "a"), check.DirAt(t, through, "a/b")}
	told := 0
	for _, v := range views {
		_, err := v.Stat(t.Context())
		check.OK(t, err)
		membrane.OnRevoke(v, func(error) { told++ })
	}
	child.Release()
	for _, v := range views {
		_, err := v.Stat(t.Context())
		check.OK(t, err)
	}
	check.OK(t, c.Revoke())
	for _, v := range views {
		_, err := v.Stat(t.Context())
		check.Is(t, "revoked", err, vfs.Revoked)
	}
	if told != len(views) {
		t.Errorf("told %d of %d", told, len(views))
	}
}

func TestControlledStays(t *testing.T) {
	d, c, raw := check.Guarded(t, check.Sample)
	ro, err := membrane.ReadOnlyDir(d)
	check.OK(t, err)
	b := check.Child(t, c, "a", "b")
	f := check.Child(t, c, "f")
	before := check.Picture(t, raw)
	derived, _ := check.Controlled(t, d)
	a := check.DirAt(t, d, "a")
	derivedA, _ := check.Controlled(t, a)
	other, _, _ := check.Guarded(t, check.Sample)
	try := func(want vfs.Code) {
		t.Helper()
		z := check.DirAt(t, d, "z")
		version, err := vfs.VersionOf(t.Context(), check.FileAt(t, d, "f"))
		check.OK(t, err)
		for what, err := range map[string]error{
			"remove":              d.Remove(t.Context(), "f", vfs.If{}),
			"remove, derived":     derived.Remove(t.Context(), "f", vfs.If{}),
			"rename":              d.Rename(t.Context(), "f", z, "g", vfs.If{}, vfs.If{}),
			"rename an ancestor":  d.Rename(t.Context(), "a", z, "g", vfs.If{}, vfs.If{}),
			"rename b":            a.Rename(t.Context(), "b", z, "g", vfs.If{}, vfs.If{}),
			"rename b, derived":   derivedA.Rename(t.Context(), "b", z, "g", vfs.If{}, vfs.If{}),
			"rename b, walked":    check.DirAt(t, derived, "a").Rename(t.Context(), "b", d, "g", vfs.If{}, vfs.If{}),
			"overwrite":           a.Rename(t.Context(), "f", d, "f", vfs.If{}, vfs.If{Is: version}),
			"overwrite, derived":  derivedA.Rename(t.Context(), "f", derived, "f", vfs.If{}, vfs.If{Is: version}),
			"to another":          d.Rename(t.Context(), "f", other, "g", vfs.If{}, vfs.If{}),
			"from another":        other.Rename(t.Context(), "f", d, "f", vfs.If{}, vfs.If{Is: version}),
			"an ancestor as that": other.Rename(t.Context(), "f", d, "a", vfs.If{}, vfs.If{}),
		} {
			if want == "" {
				continue
			}
			check.Is(t, what, err, want)
		}
	}
	try(vfs.Busy)
	check.Is(t, "through readOnly", ro.Remove(t.Context(), "f", vfs.If{}), vfs.ReadOnly)
	if now := check.Picture(t, raw); now != before {
		t.Errorf("changed to %s", now)
	}
	// Content, and what lies below a controlled directory, may change.
	check.Is(t, "put", check.Put(t.Context(), d, "f", "content"), "")
	check.Is(t, "below", check.DirAt(t, d, "a/b").Remove(t.Context(), "f", vfs.If{}), "")

	// A lock lasts longer than its control, in whatever way the controls are released.
	check.OK(t, b.SetWritable(false))
	b.Release()
	check.Is(t, "locked", check.Put(t.Context(), d, "a/b/new", "x"), vfs.ReadOnly)
	check.Is(t, "locked ancestor", d.Rename(t.Context(), "a", d, "g", vfs.If{}, vfs.If{}), vfs.Busy)
	again := check.Child(t, c, "a", "b")
	if own, _ := again.Writable(); own {
		t.Error("the lock was forgotten")
	}
	check.OK(t, again.SetWritable(true))
	again.Release()
	f.Release()
	check.Is(t, "unlocked", d.Rename(t.Context(), "a", d, "g", vfs.If{}, vfs.If{}), "")
	check.Is(t, "released", d.Remove(t.Context(), "f", vfs.If{}), "")
}

// TestRoutesOfTwoGates: if a path passes routes of several gates, all of them bind it. A
// gate that is derived there tells about all of them.
func TestRoutesOfTwoGates(t *testing.T) {
	outer, oc, _ := check.Guarded(t, check.Sample)
	inner, ic := check.Controlled(t, outer)
	ofOuter, ofInner := check.Child(t, oc, "a"), check.Child(t, ic, "a")
	a := check.DirAt(t, inner, "a")
	_, derived := check.Controlled(t, a)
	for what, route := range map[string]*membrane.Control{"the outer": ofOuter, "the inner": ofInner} {
		check.OK(t, route.SetWritable(false))
		check.Is(t, what+", locked", check.Put(t.Context(), a, "f", "x"), vfs.ReadOnly)
		if own, effective := derived.Writable(); !own || effective || !derived.Locked() {
			t.Errorf("%s, locked: own %v, effective %v, locked %v", what, own, effective, derived.Locked())
		}
		check.OK(t, route.SetWritable(true))
		check.Is(t, what+", unlocked", check.Put(t.Context(), a, "f", "x"), "")
		if own, effective := derived.Writable(); !own || !effective {
			t.Errorf("%s, unlocked: own %v, effective %v", what, own, effective)
		}
	}
}

// TestRouteThatWillExpire: the same for a route that nobody controls but that will
// expire.
func TestRouteThatWillExpire(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d, c, _ := check.Guarded(t, check.Sample)
		a := check.Child(t, c, "a")
		a.ExpireAt(time.Now().Add(time.Hour))
		a.Release()
		check.Is(t, "rename", d.Rename(t.Context(), "a", d, "g", vfs.If{}, vfs.If{}), vfs.Busy)
		view := check.DirAt(t, d, "a")
		time.Sleep(2 * time.Hour)
		check.Is(t, "put", check.Put(t.Context(), view, "f", "x"), vfs.Expired)
	})
}

// TestGuestDoesNotPin: a gate that a guest derived at a route does not control anything.
func TestGuestDoesNotPin(t *testing.T) {
	d, c, _ := check.Guarded(t, check.Sample)
	a := check.Child(t, c, "a")
	_, guests := check.Controlled(t, check.DirAt(t, d, "a"))
	a.Release()
	check.Is(t, "rename", d.Rename(t.Context(), "a", d, "g", vfs.If{}, vfs.If{}), "")
	guests.Release()
}

func TestPutThroughTheParent(t *testing.T) {
	d, c, raw := check.Guarded(t, check.Sample)
	f := check.Child(t, c, "f")
	check.OK(t, f.SetWritable(false))
	h := check.Hold(t, d)
	check.Is(t, "put", check.Put(t.Context(), d, "f", "x"), vfs.ReadOnly)
	check.Is(t, "write", check.Ops[11].Do(t.Context(), h), vfs.ReadOnly)
	check.Is(t, "remove", d.Remove(t.Context(), "f", vfs.If{}), vfs.ReadOnly)
	check.Is(t, "rename", d.Rename(t.Context(), "f", d, "g", vfs.If{}, vfs.If{}), vfs.ReadOnly)
	check.OK(t, raw.Remove(t.Context(), "f", vfs.If{})) // the host itself
	_, err := d.Create(t.Context(), "f")
	check.Is(t, "create", err, vfs.ReadOnly)
	check.OK(t, f.SetWritable(true))
	f.SetReadable(false)
	check.Is(t, "blind put", check.Put(t.Context(), d, "f", "x"), "")
	_, err = d.Replace(t.Context(), "f", nil, vfs.If{Is: vfs.Version{1}})
	check.Is(t, "a condition is an oracle", err, vfs.Denied)
	check.Is(t, "also of remove", d.Remove(t.Context(), "f", vfs.If{Is: vfs.Version{1}}), vfs.Denied)
	check.Is(t, "rename must read", d.Rename(t.Context(), "f", d, "g", vfs.If{}, vfs.If{}), vfs.Denied)
}

func TestChild(t *testing.T) {
	_, c, _ := check.Guarded(t, check.Sample, membrane.Guard{Hides: membrane.MatchPaths(func(path string) bool { return path == "z" })})
	for name, want := range map[string]vfs.Code{
		"f": "", "a": "", "l": "", "z": vfs.NotFound, "missing": vfs.NotFound, "F": vfs.NotFound, "..": vfs.Invalid, "a/f": vfs.Invalid,
	} {
		got, err := c.Child(t.Context(), name)
		check.Is(t, name, err, want)
		if err == nil {
			got.Release()
			got.Release()
		}
	}
	f := check.Child(t, c, "f")
	_, err := f.Child(t.Context(), "x")
	check.Is(t, "below a file", err, vfs.NotDir)

	// Another membrane over the same store is another route.
	s, raw := check.Store(t, check.Sample)
	one, oneC := check.Controlled(t, membrane.Guarded(raw, nil))
	two, _ := check.Controlled(t, membrane.Guarded(s.Root(), nil))
	check.OK(t, check.Child(t, oneC, "f").SetWritable(false))
	check.Is(t, "one", check.Put(t.Context(), one, "f", "x"), vfs.ReadOnly)
	check.Is(t, "two", check.Put(t.Context(), two, "f", "x"), "")
	check.Is(t, "a membrane around one", check.Put(t.Context(), membrane.Guarded(one, nil), "f", "x"), vfs.ReadOnly)
	check.Is(t, "remove through two", two.Remove(t.Context(), "f", vfs.If{}), "")
}
