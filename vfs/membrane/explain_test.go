package membrane_test

import (
	"strings"
	"testing"

	"capd/vfs"
	"capd/vfs/membrane"
	"capd/vfs/vfstest"
	"capd/vfs/vfstest/check"
)

// An explanation tells a right that is locked, at the gate or at a path below it, from one that was never given.
func TestExplainLock(t *testing.T) {
	_, raw := check.Store(t, vfstest.Tree{"a/f": {Data: "x"}, "b/f": {Data: "x"}})
	d, control := check.Controlled(t, membrane.Guarded(raw, nil))
	a, err := control.Child(t.Context(), "a")
	check.OK(t, err)
	locked := func(d vfs.Dir, right membrane.Rights, path string) bool {
		x, err := membrane.Explain(t.Context(), d, membrane.Question{Right: right, Path: path})
		check.OK(t, err)
		for _, r := range x.Reasons {
			if r.What == membrane.AboutRights && r.Locked != (r.Err != nil && strings.HasSuffix(r.Text, "; the host has locked changes here")) {
				t.Errorf("%v of %s: %+v", right, path, r)
			}
			if r.Locked {
				return true
			}
		}
		return false
	}
	less, err := membrane.ReadOnlyDir(d)
	check.OK(t, err)
	all := func(want string) {
		t.Helper()
		got := ""
		for _, c := range []struct {
			name  string
			d     vfs.Dir
			right membrane.Rights
			path  string
		}{{"a", d, membrane.Write, "a/f"}, {"b", d, membrane.Delete, "b/f"}, {"r", d, membrane.Read, "a/f"}, {"l", less, membrane.Write, "a/f"}} {
			if locked(c.d, c.right, c.path) {
				got += c.name
			}
		}
		if got != want {
			t.Errorf("locked are %q, want %q", got, want)
		}
	}
	all("")
	check.OK(t, a.SetWritable(false))
	all("a")
	check.OK(t, control.SetWritable(false))
	all("ab")
	check.OK(t, a.SetWritable(true))
	all("ab")
	check.OK(t, control.SetWritable(true))
	control.SetReadable(false)
	all("")
}
