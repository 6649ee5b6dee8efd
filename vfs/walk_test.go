package vfs_test

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"capd/vfs"
	"capd/vfs/membrane"
	"capd/vfs/search"
	"capd/vfs/vfstest"
	"capd/vfs/vfstest/check"
)

// hops is a chain of n links that ends at target.
func hops(n int, target string) []string {
	var all []string
	for i := range n - 1 {
		all = append(all, fmt.Sprintf("h%d => h%d", i, i+1))
	}
	return append(all, fmt.Sprintf("h%d => %s", n-1, target))
}

// walkTests are trees ("path" is a file that holds its own path, "path/" a
// directory, "path => target" a link), a path, and what it leads to.
var walkTests = []struct {
	name string
	fs   []string
	path string
	want string // a file's path, "path/" for a directory, or a code
	link string // with the last link not followed; "" for the same
}{
	{name: "file", fs: []string{"a"}, path: "a", want: "a"},
	{name: "below", fs: []string{"a/b/c"}, path: "a/b/c", want: "a/b/c"},
	{name: "directory", fs: []string{"a/b/c"}, path: "a/b", want: "a/b/"},
	{name: "missing", path: "a", want: "notFound"},
	{name: "missing on the way", fs: []string{"b"}, path: "a/b", want: "notFound"},
	{name: "through a file", fs: []string{"a"}, path: "a/b", want: "notDir"},
	{name: "empty", path: "", want: "invalid"},
	{name: "absolute", fs: []string{"a"}, path: "/a", want: "invalid"},
	{name: "trailing slash", fs: []string{"a/"}, path: "a/", want: "invalid"},
	{name: "empty segment", fs: []string{"a/b"}, path: "a//b", want: "invalid"},
	{name: "dot", fs: []string{"a"}, path: ".", want: "invalid"},
	{name: "dot on the way", fs: []string{"a/b"}, path: "a/./b", want: "invalid"},
	{name: "dotdot", fs: []string{"a"}, path: "..", want: "invalid"},
	{name: "dotdot back", fs: []string{"a/b", "c"}, path: "a/../c", want: "invalid"},
	{name: "NUL", path: "a\x00", want: "invalid"},

	{name: "link", fs: []string{"l => a", "a"}, path: "l", want: "a", link: "link a"},
	{name: "link below", fs: []string{"d/l => a", "d/a", "a"}, path: "d/l", want: "d/a", link: "link a"},
	{name: "link to a directory", fs: []string{"l => d", "d/a"}, path: "l/a", want: "d/a"},
	{name: "link to a directory, last", fs: []string{"l => d", "d/a"}, path: "l", want: "d/", link: "link d"},
	{name: "link with slash", fs: []string{"l => d/", "d/a"}, path: "l/a", want: "d/a"},
	{name: "link to a file with slash", fs: []string{"l => a/", "a"}, path: "l", want: "notDir", link: "link a/"},
	{name: "link to a file with dot", fs: []string{"l => a/.", "a"}, path: "l", want: "notDir", link: "link a/."},
	{name: "link through a file", fs: []string{"l => a/b", "a"}, path: "l", want: "notDir", link: "link a/b"},
	{name: "link through a file and back", fs: []string{"l => a/../a", "a"}, path: "l", want: "notDir", link: "link a/../a"},
	{name: "link with dots", fs: []string{"l => ./d/.//./a", "d/a"}, path: "l", want: "d/a", link: "link ./d/.//./a"},
	{name: "link to dot", fs: []string{"d/l => .", "d/a"}, path: "d/l/l/a", want: "d/a"},
	{name: "up and within", fs: []string{"d/l => ../a", "a"}, path: "d/l", want: "a", link: "link ../a"},
	{name: "up and down", fs: []string{"d/l => ../e/../e/a", "e/a"}, path: "d/l", want: "e/a", link: "link ../e/../e/a"},
	{name: "bin", fs: []string{"node_modules/.bin/x => ../x/cli.js", "node_modules/x/cli.js"}, path: "node_modules/.bin/x", want: "node_modules/x/cli.js", link: "link ../x/cli.js"},
	{name: "up from where a link led", fs: []string{"l => d/e", "d/e/m => ../a", "d/a", "a"}, path: "l/m", want: "d/a", link: "link ../a"},
	{name: "dotdot of a link is its target's parent", fs: []string{"l => d/e", "d/e/", "m => l/../a", "d/a", "a"}, path: "m", want: "d/a", link: "link l/../a"},
	{name: "missing and back", fs: []string{"l => none/../a", "a"}, path: "l", want: "notFound", link: "link none/../a"},
	{name: "dangling", fs: []string{"l => none"}, path: "l", want: "notFound", link: "link none"},
	{name: "dangling on the way", fs: []string{"l => none"}, path: "l/a", want: "notFound"},
	{name: "target with NUL", fs: []string{"l => a\x00b"}, path: "l", want: "invalid", link: "link a\x00b"},

	{name: "out", fs: []string{"l => ../a", "a"}, path: "l", want: "outside", link: "link ../a"},
	{name: "out and in again", fs: []string{"l => ../../x", "x"}, path: "l", want: "outside", link: "link ../../x"},
	{name: "out by depth", fs: []string{"d/l => ../../a", "a"}, path: "d/l", want: "outside", link: "link ../../a"},
	{name: "out through a directory", fs: []string{"l => d/../../a", "d/", "a"}, path: "l", want: "outside", link: "link d/../../a"},
	{name: "out on the way", fs: []string{"l => .."}, path: "l/a", want: "outside"},
	{name: "out through a link", fs: []string{"d/l => m/../..", "d/m => .."}, path: "d/l", want: "outside", link: "link m/../.."},
	{name: "absolute target", fs: []string{"l => /etc/passwd", "etc/passwd"}, path: "l", want: "outside", link: "link /etc/passwd"},
	{name: "absolute target on the way", fs: []string{"l => /etc", "etc/passwd"}, path: "l/passwd", want: "outside"},
	{name: "root", fs: []string{"l => /"}, path: "l", want: "outside", link: "link /"},

	{name: "itself", fs: []string{"l => l"}, path: "l", want: "limit", link: "link l"},
	{name: "loop", fs: []string{"l => m", "m => l"}, path: "l", want: "limit", link: "link m"},
	{name: "loop that grows", fs: []string{"l => l/l"}, path: "l", want: "limit", link: "link l/l"},
	{name: "loop through a directory", fs: []string{"d/l => ../d/l"}, path: "d/l", want: "limit", link: "link ../d/l"},
	{name: "40 hops", fs: append(hops(40, "a"), "a"), path: "h0", want: "a", link: "link h1"},
	{name: "41 hops", fs: append(hops(41, "a"), "a"), path: "h0", want: "limit", link: "link h1"},
	{name: "41 hops, the last not followed", fs: append(hops(41, "a"), "a"), path: "h1", want: "a", link: "link h2"},
	{name: "deep", fs: []string{"l => " + strings.Repeat("d/", 10) + "x", strings.Repeat("d/", 10) + "x"}, path: "l", want: strings.Repeat("d/", 10) + "x", link: "link " + strings.Repeat("d/", 10) + "x"},
	{name: "a long way", fs: []string{"l => " + strings.Repeat("d/../", 510) + "a", "d/", "a"}, path: "l", want: "a", link: "link " + strings.Repeat("d/../", 510) + "a"},
	{name: "too long a way", fs: append(hops(2, strings.Repeat("d/../", 511)+"a"), "d/", "a"), path: "h0", want: "limit", link: "link h1"},
	{name: "long target", fs: []string{"l => " + strings.Repeat("./", 2047)}, path: "l/a", want: "notFound"},
}

// However many links a path goes through, and however long they are, a walk looks up only
// a limited number of names.
func TestWalkIsBounded(t *testing.T) {
	fs := []string{"d/"}
	for i := range vfs.MaxLinks {
		fs = append(fs, fmt.Sprintf("h%d => %sh%d", i, strings.Repeat("d/../", 800), i+1))
	}
	_, raw := check.Store(t, buildTree(append(fs, fmt.Sprintf("h%d", vfs.MaxLinks))))
	var looked atomic.Int64
	_, err := vfs.Walk(t.Context(), &looks{raw, &looked}, "h0")
	if vfs.CodeOf(err) != vfs.Limit || looked.Load() > vfs.MaxWalk {
		t.Errorf("a walk through %d long links looks up %d names and answers %v", vfs.MaxLinks, looked.Load(), err)
	}
}

// looks counts the lookups in a directory.
type looks struct {
	vfs.Dir
	n *atomic.Int64
}

func (l *looks) Lookup(ctx context.Context, name string) (vfs.Node, error) {
	l.n.Add(1)
	return l.Dir.Lookup(ctx, name)
}

func buildTree(fs []string) vfstest.Tree {
	tree := vfstest.Tree{}
	for _, f := range fs {
		path, target, link := strings.Cut(f, " => ")
		switch {
		case link:
			tree[path] = vfstest.Node{Link: target}
		case strings.HasSuffix(path, "/"):
			tree[strings.TrimSuffix(path, "/")] = vfstest.Node{Dir: true}
		default:
			tree[path] = vfstest.Node{Data: path}
		}
	}
	return tree
}

func TestWalk(t *testing.T) {
	for _, c := range walkTests {
		for name, wrap := range map[string]func(vfs.Dir) vfs.Dir{
			"bare":    func(d vfs.Dir) vfs.Dir { return d },
			"guarded": func(d vfs.Dir) vfs.Dir { return membrane.Guarded(d, nil, check.Policies()...) },
		} {
			t.Run(c.name+"/"+name, func(t *testing.T) {
				_, raw := check.Store(t, buildTree(c.fs))
				var open atomic.Int64
				d := wrap(&counting{Dir: raw, open: &open})
				n, err := vfs.Walk(t.Context(), d, c.path)
				led(t, raw, n, err, c.want)
				if c.link == "" {
					c.link = c.want
				}
				n, err = vfs.WalkLink(t.Context(), d, c.path)
				led(t, raw, n, err, c.link)
				if n := open.Load(); n != 0 {
					t.Errorf("%d nodes are left open", n)
				}
			})
		}
	}
}

// led checks that a walk led to want, and closes what it found.
func led(t *testing.T, raw vfs.Dir, n vfs.Node, err error, want string) {
	t.Helper()
	got := string(vfs.CodeOf(err))
	switch n := n.(type) {
	case vfs.Dir:
		// What is made there tells which one it is.
		check.OK(t, check.Put(t.Context(), n, "marker", ""))
		all, err := search.Compile("**/marker")
		check.OK(t, err)
		check.OK(t, check.Find(t.Context(), raw, all, "", func(path string, _ vfs.Kind, hit bool, _ int) bool {
			if hit {
				got = strings.TrimSuffix(path, "marker")
			}
			return true
		}))
		check.OK(t, n.Remove(t.Context(), "marker", vfs.If{}))
	case vfs.File:
		p := make([]byte, 300)
		size, _ := n.ReadAt(t.Context(), p, 0)
		got = string(p[:size])
	case vfs.Link:
		target, err := n.Target(t.Context())
		check.OK(t, err)
		got = "link " + target
	}
	if n != nil {
		n.Close()
	}
	if got != want {
		t.Errorf("led to %q (%v), want %q", got, err, want)
	}
	if err != nil && got != "invalid" && (strings.Contains(err.Error(), "etc") || strings.Contains(err.Error(), "..")) {
		t.Errorf("shows where to: %v", err)
	}
}

func TestWalkLongLoop(t *testing.T) {
	s, raw := check.Store(t, nil)
	const many = 10_000
	for i := range many {
		check.OK(t, s.Symlink(t.Context(), fmt.Sprint("l", i), fmt.Sprint("l", (i+1)%many)))
	}
	begun := time.Now()
	_, err := vfs.Walk(t.Context(), raw, "l0")
	check.Is(t, "the loop", err, vfs.Limit)
	if took := time.Since(begun); took > time.Second {
		t.Errorf("took %v", took)
	}
}

// TestWalkBackToRoot: a link may lead to the Dir itself. Only a membrane can give another
// reference to it.
func TestWalkBackToRoot(t *testing.T) {
	d, _, raw := check.Guarded(t, vfstest.Tree{"d/l": {Link: ".."}, "f": {Data: "x"}})
	ro, err := membrane.ReadOnlyDir(d)
	check.OK(t, err)
	back, err := vfs.WalkDir(t.Context(), ro, "d/l")
	check.OK(t, err)
	check.Is(t, "still read-only", check.Put(t.Context(), back, "f", "y"), vfs.ReadOnly)
	check.OK(t, back.Close())
	if got := check.Read(t, ro, "d/l/f"); got != "x" {
		t.Error(got)
	}
	_, err = vfs.Walk(t.Context(), raw, "d/l")
	check.Is(t, "bare", err, vfs.Unsupported)
}

// TestWalkDeep: links lead no deeper than a path could.
func TestWalkDeep(t *testing.T) {
	s, raw := check.Store(t, nil)
	d, path, down := raw, "", strings.Repeat("a/", 70)
	for range 2 {
		check.OK(t, s.Symlink(t.Context(), vfs.Join(path, "l"), down))
		for range 70 {
			var err error
			d, err = d.Mkdir(t.Context(), "a")
			check.OK(t, err)
			path = vfs.Join(path, "a")
		}
	}
	_, err := vfs.WalkDir(t.Context(), raw, "l")
	check.OK(t, err)
	_, err = vfs.WalkDir(t.Context(), raw, "l/l")
	check.Is(t, "140 directories below", err, vfs.Limit)
}

func TestWalkKinds(t *testing.T) {
	d, _, _ := check.Guarded(t, check.Sample)
	_, err := vfs.WalkDir(t.Context(), d, "f")
	check.Is(t, "WalkDir", err, vfs.NotDir)
	_, err = vfs.WalkFile(t.Context(), d, "a")
	check.Is(t, "WalkFile", err, vfs.IsDir)
	for path, want := range map[string]string{"f": "f", "a/f": "f", "a/b/none": "none"} {
		dir, name, release, err := vfs.WalkParent(t.Context(), d, path)
		check.OK(t, err)
		if name != want || (dir == d) != (path == "f") {
			t.Errorf("%s: %q", path, name)
		}
		release()
	}
	for path, want := range map[string]vfs.Code{"": vfs.Invalid, "f/x": vfs.NotDir, "none/x": vfs.NotFound, "/x": vfs.Invalid, "a/..": vfs.Invalid} {
		_, _, _, err := vfs.WalkParent(t.Context(), d, path)
		check.Is(t, path, err, want)
	}
	_, err = d.Stat(t.Context())
	check.OK(t, err)
}

func TestPutThroughLinks(t *testing.T) {
	tree := vfstest.Tree{"l": {Link: "d/f"}, "d/f": {Data: "old"}, "gone": {Link: "none"}, "up": {Link: "../f"}, "dir": {Link: "d"}, "abs": {Link: "/f"}, "d/m": {Link: "../l"}}
	for path, c := range map[string]struct {
		want vfs.Code
		at   string
	}{
		"l": {"", "d/f"}, "d/m": {"", "d/f"}, "dir/new": {"", "d/new"}, "dir/f": {"", "d/f"}, "new": {"", "new"},
		"gone": {vfs.NotFound, ""}, "up": {vfs.Outside, ""}, "abs": {vfs.Outside, ""}, "dir": {vfs.IsDir, ""}, "d": {vfs.IsDir, ""},
		"gone/x": {vfs.NotFound, ""}, "l/x": {vfs.NotDir, ""},
	} {
		d, _, raw := check.Guarded(t, tree)
		before := check.Picture(t, raw)
		check.Is(t, path, check.Put(t.Context(), d, path, "new"), c.want)
		if c.want == "" && check.Read(t, raw, c.at) != "new" {
			t.Errorf("%s: not there", path)
		}
		if c.want != "" && check.Picture(t, raw) != before {
			t.Errorf("%s: something changed", path)
		}
	}
	d, c, raw := check.Guarded(t, tree)
	c.SetReadable(false)
	check.OK(t, check.Put(t.Context(), d, "blind", "x"))
	check.Is(t, "blindly through a link", check.Put(t.Context(), d, "l", "x"), vfs.NotRegular)
	if check.Read(t, raw, "blind") != "x" {
		t.Error("not there")
	}
}

func TestWithin(t *testing.T) {
	for _, c := range []struct {
		depth  int
		target string
		want   bool
	}{
		{0, "a", true}, {0, "..", false}, {1, "..", true}, {1, "../..", false}, {0, "a/..", true}, {0, "a/../..", false},
		{0, "", false}, {5, "/a", false}, {0, "./.", true}, {2, ".././../a/../..", false}, {0, "a//../b", true},
	} {
		if got := vfs.Within(c.depth, c.target); got != c.want {
			t.Errorf("Within(%d, %q) = %v", c.depth, c.target, got)
		}
	}
}
