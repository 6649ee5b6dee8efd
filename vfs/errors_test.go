package vfs_test

import (
	"strings"
	"testing"

	"capd/vfs"
)

// The path in an error is never much longer than a path may be, whatever the request was.
func TestErrorAboutALongPath(t *testing.T) {
	about := func(path string) string { return (&vfs.Error{Code: vfs.NotFound, Path: path}).Error() }
	long := strings.Repeat("a", vfs.MaxPath)
	if about(long) != "notFound: "+long {
		t.Fatal("an error about a path of MaxPath bytes does not show the whole path")
	}
	if about(long+"b") != "notFound: "+long+"…" {
		t.Fatal("an error about a longer path does not cut it at MaxPath bytes")
	}
	if got := len(about(strings.Repeat("\x01", 7<<20))); got >= 6*vfs.MaxPath+100 {
		t.Fatalf("%v >= %v", got, 6*vfs.MaxPath+100)
	}
}

// A path that the host has already named is named once.
func TestAtNamesOnce(t *testing.T) {
	for _, c := range []struct{ path, msg, want string }{
		{"a/b", "a/b: nothing has this name", "notFound: a/b: nothing has this name"},
		{"a/b", "b: nothing has this name", "notFound: a/b: nothing has this name"},
		{"a\nb", `a\u000ab: nothing has this name`, `notFound: a\u000ab: nothing has this name`},
		{"a/b", "a: nothing has this name", "notFound: a/b: a: nothing has this name"},
		{"a/b", "nothing has this name", "notFound: a/b: nothing has this name"},
		{"", ": nothing", "notFound: : nothing"},
		{"a/", ": nothing", "notFound: a/: : nothing"},
	} {
		if got := vfs.At(c.path, vfs.Errorf(vfs.NotFound, "%s", c.msg)).Error(); got != c.want {
			t.Errorf("%q at %q is %q, want %q", c.msg, c.path, got, c.want)
		}
	}
}

// A guest may send a very long path. It costs hardly more than a short one.
func TestAtALongPath(t *testing.T) {
	err := vfs.Errorf(vfs.Limit, "too long")
	for _, names := range []int{1 << 20, vfs.MaxPath / 2} {
		path := strings.Repeat("\x01/", names)
		if n := testing.AllocsPerRun(1, func() { _ = vfs.At(path, err) }); n > 20 {
			t.Errorf("%d names: %v allocations", names, n)
		}
	}
}
