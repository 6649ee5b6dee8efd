package namespace_test

import (
	"slices"
	"strings"
	"testing"

	"capd/vfs"
	"capd/vfs/membrane"
	"capd/vfs/namespace"
	"capd/vfs/vfstest"
	"capd/vfs/vfstest/check"
)

// composed is a root with other trees in it.
func composed(t testing.TB) (ns vfs.Dir, root, one, two vfs.Dir) {
	t.Helper()
	_, root = check.Store(t, vfstest.Tree{"a/hidden": {Data: "x"}, "b/file": {Data: "b"}, "c": {Data: "c"}, "m/n/hidden": {Data: "x"}, "m/seen": {Data: "m"}, "z/f": {Data: "z"}, "l": {Link: "a/f"}, "deep": {Data: "a file where a tree is"}})
	_, one = check.Store(t, vfstest.Tree{"f": {Data: "one"}, "sub/hidden": {Data: "x"}, "up": {Link: "../b/file"}})
	_, two = check.Store(t, vfstest.Tree{"f": {Data: "two"}})
	_, three := check.Store(t, vfstest.Tree{"f": {Data: "three"}})
	_, four := check.Store(t, vfstest.Tree{"f": {Data: "two"}})
	ns = check.Compose(t, map[string]vfs.Dir{"": root, "a": one, "m/n": two, "a/sub": three, "deep/er/still": four}).Root()
	return ns, root, one, two
}

func TestNamespace(t *testing.T) {
	ns, _, _, _ := composed(t)
	want := "a a/f a/sub a/sub/f a/up b b/file c deep deep/er deep/er/still deep/er/still/f l m m/n m/n/f m/seen z z/f"
	if got := strings.Join(check.Naive(t, ns, "**"), " "); got != want {
		t.Errorf("it has %s", got)
	}
	for path, want := range map[string]string{"a/f": "one", "m/n/f": "two", "a/sub/f": "three", "b/file": "b", "m/seen": "m", "deep/er/still/f": "two"} {
		if got := check.Read(t, ns, path); got != want {
			t.Errorf("%s: %s", path, got)
		}
	}
	g := membrane.Guarded(ns, nil)
	if got := check.Read(t, g, "a/up"); got != "b" {
		t.Errorf("a link from tree to tree: %s", got)
	}
	if got := check.Read(t, g, "l"); got != "one" {
		t.Errorf("a link into a tree: %s", got)
	}
	for _, pattern := range []string{"**/f", "a/*", "*/n/f", "**/still/**", "m/**"} {
		if got, want := check.Hits(t, g, pattern, ""), check.Naive(t, ns, pattern); !slices.Equal(got, want) || len(got) == 0 {
			t.Errorf("%s finds %v, want %v", pattern, got, want)
		}
	}
	for _, path := range []string{"a/hidden", "m/n/hidden", "a/sub/hidden", "deep/x"} {
		_, err := vfs.Walk(t.Context(), ns, path)
		check.Is(t, path, err, vfs.NotFound)
	}
}

func TestNamespaceChanges(t *testing.T) {
	for name, wrap := range map[string]func(vfs.Dir) vfs.Dir{
		"bare":    func(d vfs.Dir) vfs.Dir { return d },
		"guarded": func(d vfs.Dir) vfs.Dir { return membrane.Guarded(d, nil, check.Policies()...) },
	} {
		t.Run(name, func(t *testing.T) {
			bare, root, one, _ := composed(t)
			ns := wrap(bare)
			ctx := t.Context()
			a, m, er := check.DirAt(t, ns, "a"), check.DirAt(t, ns, "m"), check.DirAt(t, ns, "deep/er")
			before := check.Picture(t, ns)
			for what, c := range map[string]struct {
				err  error
				want vfs.Code
			}{
				"remove a tree":             {ns.Remove(ctx, "a", vfs.If{}), vfs.Busy},
				"remove a nested tree":      {a.Remove(ctx, "sub", vfs.If{}), vfs.Busy},
				"remove what leads to one":  {ns.Remove(ctx, "m", vfs.If{}), vfs.Busy},
				"remove in what leads":      {er.Remove(ctx, "still", vfs.If{}), vfs.Busy},
				"rename a tree":             {ns.Rename(ctx, "a", ns, "q", vfs.If{}, vfs.If{}), vfs.Busy},
				"rename what leads to one":  {ns.Rename(ctx, "m", ns, "q", vfs.If{}, vfs.If{}), vfs.Busy},
				"rename over a tree":        {ns.Rename(ctx, "c", m, "n", vfs.If{}, vfs.If{}), vfs.Busy},
				"rename into what leads":    {ns.Rename(ctx, "c", er, "q", vfs.If{}, vfs.If{}), vfs.ReadOnly},
				"rename out of what leads":  {er.Rename(ctx, "still", ns, "q", vfs.If{}, vfs.If{}), vfs.Busy},
				"rename over what is there": {ns.Rename(ctx, "c", a, "f", vfs.If{}, vfs.If{}), vfs.Exists},
				"put over a tree":           {check.Put(ctx, ns, "a", "x"), vfs.IsDir},
				"put over what leads":       {check.Put(ctx, ns, "deep", "x"), vfs.IsDir},
				"make in what only leads":   {check.Put(ctx, er, "x", "x"), vfs.ReadOnly},
				"remove in what only leads": {er.Remove(ctx, "x", vfs.If{}), vfs.ReadOnly},
			} {
				check.Is(t, what, c.err, c.want)
			}
			_, err := ns.Create(ctx, "a")
			check.Is(t, "create", err, vfs.Exists)
			_, err = m.Mkdir(ctx, "n")
			check.Is(t, "mkdir", err, vfs.Exists)
			_, err = er.Mkdir(ctx, "x")
			check.Is(t, "mkdir in what only leads", err, vfs.ReadOnly)
			if now := check.Picture(t, ns); now != before {
				t.Errorf("changed to %s", now)
			}
			check.OK(t, ns.Rename(ctx, "c", m, "c2", vfs.If{}, vfs.If{})) // one tree, beside a mount
			check.OK(t, check.Put(ctx, ns, "a/new", "x"))
			if check.Read(t, root, "m/c2") != "c" || check.Read(t, one, "new") != "x" {
				t.Error("not in its tree")
			}
		})
	}
}

// TestNamespaceIsAlsoRevoked: a mount's own gate revokes too, and functions given to
// OnRevoke are called through the membrane around the namespace.
func TestNamespaceIsAlsoRevoked(t *testing.T) {
	inner, c, _ := check.Guarded(t, check.Sample)
	_, other := check.Store(t, check.Sample)
	d := membrane.Guarded(check.Compose(t, map[string]vfs.Dir{"in": inner, "other": other}).Root(), nil)
	told := 0
	for _, path := range []string{"in", "in/a/b", "in/f"} {
		n, err := vfs.Walk(t.Context(), d, path)
		check.OK(t, err)
		membrane.OnRevoke(n, func(err error) { check.Is(t, path, err, vfs.Revoked); told++ })
	}
	membrane.OnRevoke(check.DirAt(t, d, "other"), func(error) { t.Error("told of another") })
	check.OK(t, c.Revoke())
	if told != 3 {
		t.Errorf("told %d", told)
	}
	_, err := vfs.Walk(t.Context(), d, "in/f")
	check.Is(t, "within", err, vfs.Revoked)
	if got := check.Read(t, d, "other/f"); got != "content" {
		t.Error(got)
	}
}

func TestNamespaceUnderDenial(t *testing.T) {
	_, raw := check.Store(t, check.Sample)
	root := membrane.Guarded(raw, nil, membrane.Guard{Hides: membrane.MatchPaths(func(path string) bool { return path == "a" || strings.HasPrefix(path, "a/") })})
	_, other := check.Store(t, check.Sample)
	ns := check.Compose(t, map[string]vfs.Dir{"": root, "a/tree": other}).Root()
	if got, err := check.Names(t.Context(), check.DirAt(t, ns, "a")); err != nil || !slices.Equal(got, []string{"tree"}) {
		t.Errorf("a lists %v, %v; want only the mount", got, err)
	}
	if got := check.Read(t, ns, "a/tree/a/f"); got != "below" {
		t.Error(got)
	}
}

func TestNamespacePaths(t *testing.T) {
	_, d := check.Store(t, nil)
	ns := namespace.New()
	for path, want := range map[string]vfs.Code{"/a": vfs.Invalid, "a/": vfs.Invalid, "a//b": vfs.Invalid, "..": vfs.Invalid, "a\nb": vfs.Invalid, strings.Repeat("a/", 200) + "a": vfs.Limit} {
		check.Is(t, path, ns.Mount(path, d, namespace.Options{}), want)
		check.Is(t, "unmount "+path, ns.Unmount(t.Context(), path), want)
	}
	check.Is(t, "nothing there", ns.Unmount(t.Context(), "a"), vfs.NotFound)
	root := ns.Root()
	if all, err := check.Names(t.Context(), root); err != nil || len(all) > 0 {
		t.Errorf("the root lists %v, %v; want nothing", all, err)
	}
	_, err := root.Create(t.Context(), "a")
	check.Is(t, "create", err, vfs.ReadOnly)
}
