package membrane_test

import (
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"capd/vfs"
	"capd/vfs/membrane"
	"capd/vfs/namespace"
	"capd/vfs/vfstest"
	"capd/vfs/vfstest/check"
)

// rooted is a capability for a directory of a tree.
func rooted(t testing.TB, root vfs.Dir, path string) vfs.Dir {
	t.Helper()
	d := root
	if path != "" {
		d = check.DirAt(t, root, path)
	}
	got, c, err := membrane.RevocableDir(d)
	check.OK(t, err)
	t.Cleanup(func() { got.Close(); c.Release() })
	return got
}

func makeLink(t testing.TB, d vfs.Dir, path, target string) error {
	t.Helper()
	dir, name, release, err := vfs.WalkParent(t.Context(), d, path)
	if err != nil {
		return err
	}
	defer release()
	return membrane.MakeLink(t.Context(), d, dir, name, target)
}

func moveIn(t testing.TB, d vfs.Dir, from, to string) error {
	t.Helper()
	src, name, release, err := vfs.WalkParent(t.Context(), d, from)
	if err != nil {
		return err
	}
	defer release()
	dst, newName, release, err := vfs.WalkParent(t.Context(), d, to)
	if err != nil {
		return err
	}
	defer release()
	return src.Rename(t.Context(), name, dst, newName, vfs.If{}, vfs.If{})
}

var linked = vfstest.Tree{
	"g/a/b/f": {Data: "f"}, "g/x": {Data: "x"}, "other/y": {Data: "y"},
	"g/away": {Link: "../other"}, "g/abs": {Link: "/etc"}, "g/a/hidden": {Data: "h"}, "g/loop": {Link: "loop"},
}

func TestMakeLink(t *testing.T) {
	_, store := check.Store(t, linked)
	root := membrane.Guarded(store, nil, membrane.Guard{Hides: membrane.MatchPaths(func(path string) bool { return path == "g/a/hidden" })})
	defer root.Close()
	d := rooted(t, root, "g")
	for i, c := range []struct {
		path, target string
		want         vfs.Code
	}{
		{"l", "x", ""}, {"l", "a/b/f", ""}, {"l", "missing/too", ""}, {"l", "x/below a file", ""}, {"l", "./x", ""}, {"l", "a/", ""}, {"l", "a//b", vfs.Invalid},
		{"a/b/l", "../../x", ""}, {"a/b/l", "../..", ""}, {"a/b/l", "..", ""}, {"l", ".", ""},
		{"l", "..", vfs.Outside}, {"l", "../g/x", vfs.Outside}, {"a/b/l", "../../../other/y", vfs.Outside},
		{"l", "/etc/passwd", vfs.Outside}, {"l", "/", vfs.Outside}, {"l", "a/../x", vfs.Outside}, {"l", "a/b/../../../other", vfs.Outside}, {"a/l", "./a/..", vfs.Outside},
		{"l", "away", vfs.Outside}, {"l", "away/y", vfs.Outside}, {"l", "abs", vfs.Outside}, {"a/l", "../abs/passwd", vfs.Outside},
		{"l", "a/hidden", vfs.Denied}, {"l", "loop", vfs.Limit},
		{"l", "", vfs.Invalid}, {"l", "a\x00b", vfs.Invalid}, {"l", "a\\..\\b", vfs.Invalid}, {"l", "a\nb", vfs.Invalid}, {"l", "\xff", vfs.Invalid}, {"l", strings.Repeat("n", 256), vfs.Invalid},
		{"l", strings.Repeat("x/", vfs.MaxPath), vfs.Limit},
		{"x", "a", vfs.Exists}, {"abs", "a", vfs.Exists}, {"bad\nname", "a", vfs.Invalid}, {"a/hidden", "b", vfs.Denied},
	} {
		err := makeLink(t, d, c.path, c.target)
		check.Is(t, fmt.Sprintf("%d: %s -> %.50q", i, c.path, c.target), err, c.want)
		if err == nil {
			n, err := vfs.WalkLink(t.Context(), d, c.path)
			check.OK(t, err)
			if text, err := n.(vfs.Link).Target(t.Context()); err != nil || text != c.target {
				t.Errorf("%s leads to %q, %v; want %q", c.path, text, err, c.target)
			}
			n.Close()
			dir, name, release, err := vfs.WalkParent(t.Context(), d, c.path)
			check.OK(t, err)
			check.OK(t, dir.Remove(t.Context(), name, vfs.If{}))
			release()
		}
	}
	check.Is(t, "a link out of the Dir of the call", makeLink(t, check.DirAt(t, d, "a"), "b/l", "../../x"), vfs.Outside)
	check.Is(t, "a link in a share that leads out of it", makeLink(t, rooted(t, d, "a/b"), "l", ".."), vfs.Outside)
	check.Is(t, "a Dir behind no membrane", membrane.MakeLink(t.Context(), store, store, "l", "x"), vfs.Unsupported)
	check.Is(t, "without the right", makeLink(t, narrow(t, d, membrane.AllRights), "l", "x"), vfs.Denied)
	check.Is(t, "without the right, of a bad target", makeLink(t, narrow(t, d, membrane.AllRights), "l", "/"), vfs.Denied)
	check.Is(t, "read-only", makeLink(t, narrow(t, d, membrane.EveryRight&^membrane.Write), "l", "x"), vfs.ReadOnly)
}

func TestMovedLinks(t *testing.T) {
	deep := strings.Repeat("d/", vfs.MaxDepth-3) + "d"
	for _, c := range []struct {
		links    string // PATH>TARGET …
		from, to string
		want     vfs.Code
	}{
		{"a/b/l>../../x", "a/b/l", "a/l", vfs.Outside},
		{"a/b/l>../../x", "a/b/l", "a/c/l", ""},
		{"a/b/l>../../x", "a/b", "b", vfs.Outside},
		{"a/b/l>../../x", "a/b", "c", vfs.Outside},
		{"a/b/l>../../x", "a", "c", ""},
		{"a/b/l>../x", "a/b", "b", ""},
		{"a/b/l>f", "a/b/l", "l", ""},
		{"a/b/l>f", "a", "other/a", ""},
		{"a/b/l>../../x", "a", "other/a", ""},
		{"l>/etc", "l", "a/l", ""},
		{"a/l>/etc", "a/l", "l", ""},
		{"a/b/l>../../../out", "a/b/l", "a/b/m", ""},           // it led out before, to the same
		{"a/b/l>../../../out", "a/b", "a/c/b", ""},             // it leads inside now
		{"a/b/l>../../../../out", "a/b", "a/c/b", vfs.Outside}, // it would lead to another place outside
		{"a/b/l>c/../../../x", "a/b/l", "a/l", vfs.Outside},
		{"a/b/c/e/l>../../../../x", "a/b", "b", vfs.Outside},
		{"a/b/c/e/l>../../x", "a/b", "b", ""},
		{"a/b/l>../../x a/b/m>f", "a/b/m", "m", ""},
		{deep + "/l>../../x", "d", "other/d", ""},          // 128 names
		{deep + "/d/l>../../x", "d", "other/d", vfs.Limit}, // 129
		{deep + "/d/l>" + strings.Repeat("../", vfs.MaxDepth) + "x", "d/d", "d2", vfs.Outside},
	} {
		what := fmt.Sprintf("%.60s: %s to %s", c.links, c.from, c.to)
		tree := vfstest.Tree{"a/b/f": {Data: "f"}, "a/c": {Dir: true}, "other": {Dir: true}, "x": {Data: "x"}}
		for l := range strings.FieldsSeq(c.links) {
			path, target, _ := strings.Cut(l, ">")
			tree[path] = vfstest.Node{Link: target}
		}
		_, store := check.Store(t, tree)
		root := membrane.Guarded(store, nil)
		check.Is(t, what, moveIn(t, rooted(t, root, ""), c.from, c.to), c.want)
		root.Close()
	}
}

// TestMovedLinksOfGrants: what counts is the directory that was granted, at the target of the move.
func TestMovedLinksOfGrants(t *testing.T) {
	_, store := check.Store(t, vfstest.Tree{"g/a/l": {Link: "../x"}, "g/b/in": {Dir: true}, "h/c/l": {Link: "../x"}})
	root := membrane.Guarded(store, nil)
	defer root.Close()
	all, part := rooted(t, root, "g"), rooted(t, root, "g/b")
	err := check.DirAt(t, all, "a").Rename(t.Context(), "l", part, "l", vfs.If{}, vfs.If{})
	check.Is(t, "into a share, which the link would lead out of", err, vfs.Outside)
	check.OK(t, check.DirAt(t, all, "a").Rename(t.Context(), "l", check.DirAt(t, part, "in"), "l", vfs.If{}, vfs.If{}))
	other := rooted(t, root, "h/c")
	check.Is(t, "from another grant, as deep", other.Rename(t.Context(), "l", part, "m", vfs.If{}, vfs.If{}), vfs.Outside)
}

// TestLinksOfMounts: a link stays in the tree of one mount, since other programs see that tree alone.
func TestLinksOfMounts(t *testing.T) {
	ns := namespace.New()
	for _, path := range []string{"a", "b/c"} {
		_, store := check.Store(t, vfstest.Tree{"d/f": {Data: "f"}})
		check.OK(t, ns.Mount(path, store, namespace.Options{}))
	}
	_, plain := check.Store(t, nil)
	check.OK(t, ns.Mount("none", plain, namespace.Options{NoLinks: true}))
	root := membrane.Guarded(ns.Root(), nil)
	defer root.Close()
	d := rooted(t, root, "")
	check.OK(t, makeLink(t, d, "b/c/d/l", "../d/f"))
	check.Is(t, "out of the mount", makeLink(t, d, "b/c/d/m", "../../../a/d/f"), vfs.Outside)
	check.Is(t, "out of the mount, to its own tree", makeLink(t, d, "a/l", "../a/d"), vfs.Outside)
	check.Is(t, "where links are refused", makeLink(t, d, "none/l", "x"), vfs.Denied)
	check.Is(t, "beside the mounts", makeLink(t, d, "b/l", "c"), vfs.ReadOnly)
	check.OK(t, moveIn(t, d, "b/c/d/l", "a/d/l"))
	check.Is(t, "up, between mounts", moveIn(t, d, "a/d/l", "b/c/l"), vfs.Outside)
	check.Is(t, "in a directory, up, between mounts", moveIn(t, d, "a/d", "b/c/d/e"), "")
	check.OK(t, makeLink(t, d, "b/c/d/e/m", "../../d"))
	check.Is(t, "in a directory, between mounts", moveIn(t, d, "b/c/d/e", "a/e"), vfs.Outside)
}

// TestLinksWhileDirectoriesMove: while a directory moves up, nobody makes or moves a link in it that would lead out from there.
func TestLinksWhileDirectoriesMove(t *testing.T) {
	tree := vfstest.Tree{"t/a/d/z/f": {Data: "f"}, "t/a/e": {Dir: true}, "t/l": {Link: "../x"}, "t/a/m": {Link: "../../x"}}
	for i := range 200 {
		tree[fmt.Sprintf("t/a/d/%03d", i)] = vfstest.Node{Dir: true}
	}
	_, store := check.Store(t, tree)
	root := membrane.Guarded(store, nil)
	defer root.Close()
	d := rooted(t, root, "")
	var others sync.WaitGroup
	over := make(chan struct{})
	var made atomic.Int64
	for _, try := range []func() error{
		func() error { return makeLink(t, d, "t/a/d/l", "../../../x") },
		func() error { return moveIn(t, d, "t/a/m", "t/a/d/z/m") }, // steady if that is as deep
		func() error { return moveIn(t, d, "t/a/d/z/m", "t/a/m") },
		func() error { return removeAt(t, d, "t/a/d/l") },
	} {
		others.Go(func() {
			for {
				select {
				case <-over:
					return
				default:
					if try() == nil {
						made.Add(1)
					}
				}
			}
		})
	}
	moved := 0
	for range 400 {
		if moveIn(t, d, "t/a/d", "d") != nil {
			continue
		}
		moved++
		for _, path := range []string{"d/l", "d/z/m"} {
			if n, err := vfs.WalkLink(t.Context(), store, path); err == nil {
				text, _ := n.(vfs.Link).Target(t.Context())
				if !vfs.Within(strings.Count(path, "/"), text) {
					t.Errorf("%s leads out: %s", path, text)
				}
				n.Close()
			}
		}
		check.OK(t, moveIn(t, d, "d", "t/a/d"))
	}
	close(over)
	others.Wait()
	t.Logf("%d moves up, %d changes of links", moved, made.Load())
	if moved < 20 || made.Load() < 20 {
		t.Error("too little was tried")
	}
}

func removeAt(t testing.TB, d vfs.Dir, path string) error {
	dir, name, release, err := vfs.WalkParent(t.Context(), d, path)
	if err != nil {
		return err
	}
	defer release()
	return dir.Remove(t.Context(), name, vfs.If{})
}
