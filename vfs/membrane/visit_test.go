package membrane_test

import (
	"slices"
	"strings"
	"testing"

	"capd/meter"
	"capd/vfs"
	"capd/vfs/membrane"
	"capd/vfs/vfstest"
	"capd/vfs/vfstest/check"
)

// visited returns the names of the files in dir that a visit of all names shows, and what is done
// after each.
func visited(t *testing.T, d vfs.Dir, dir []string, names string, after func(name string)) (seen []string, err error) {
	t.Helper()
	err = vfs.Visit(t.Context(), d, dir, strings.Fields(names), make([]byte, 100), func(f vfs.Visited) bool {
		check.OK(t, f.Err)
		seen = append(seen, f.Name)
		after(f.Name)
		return true
	})
	return seen, err
}

// A visit leaves out what is withheld and what a route refuses, also when that changes in its
// midst. It ends with a revoke. It counts as an open node.
func TestVisit(t *testing.T) {
	_, raw := check.Store(t, vfstest.Tree{"d/a": {Data: "a"}, "d/b": {Data: "b"}, "d/c": {Data: "c"}, "d/secret": {Data: "s"}, "secret/a": {Data: "a"}})
	m := meter.NewHost(nil).Grant("g", nil)
	d, c, err := membrane.RevocableDir(membrane.Guarded(raw, membrane.NewGate(), membrane.Guard{
		Hides: membrane.MatchPaths(func(path string) bool { return strings.HasSuffix(path, "secret") }), Meter: m,
	}))
	check.OK(t, err)
	defer c.Release()
	in := []string{"d"}
	same := func(what string, got []string, err error, want ...string) {
		t.Helper()
		if check.OK(t, err); !slices.Equal(got, want) {
			t.Errorf("%s: %q, want %q", what, got, want)
		}
	}
	open := m.Used(meter.Nodes)
	got, err := visited(t, d, in, "a b c secret", func(string) {
		if m.Used(meter.Nodes) != open+1 {
			t.Errorf("%d nodes are open, and %d were before", m.Used(meter.Nodes), open)
		}
	})
	same("a visit", got, err, "a", "b", "c")
	if m.Used(meter.Nodes) != open {
		t.Errorf("%d nodes are open afterwards, and %d were before", m.Used(meter.Nodes), open)
	}
	_, err = visited(t, d, []string{"secret"}, "a", func(string) {})
	check.Is(t, "a visit of what is withheld", err, vfs.Denied)

	sub, err := c.Child(t.Context(), "d")
	check.OK(t, err)
	defer sub.Release()
	got, err = visited(t, d, in, "a b c", func(name string) { sub.SetReadable(name != "b") })
	same("a visit of a route that is closed in its midst", got, err, "a", "b")
	got, err = visited(t, d, in, "a b c", func(string) {})
	same("a visit of a route that is closed", got, err)
	sub.SetReadable(true)
	less, err := membrane.Narrow(d, membrane.AllRights&^membrane.Read)
	check.OK(t, err)
	_, err = visited(t, less.(vfs.Dir), in, "a", func(string) {})
	check.Is(t, "a visit without the right to read", err, vfs.Denied)
	got, err = visited(t, d, in, "a b c", func(name string) {
		if name == "b" {
			check.OK(t, c.Revoke())
		}
	})
	if check.Is(t, "a visit that is revoked in its midst", err, vfs.Revoked); !slices.Equal(got, []string{"a", "b"}) {
		t.Errorf("a visit that is revoked in its midst sees %q", got)
	}
}
