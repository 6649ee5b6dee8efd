package search_test

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"capd/vfs"
	"capd/vfs/faultfs"
	"capd/vfs/ignore"
	"capd/vfs/membrane"
	"capd/vfs/search"
	"capd/vfs/vfstest"
	"capd/vfs/vfstest/check"
)

// unignored returns what a search that respects ignore files finds after a path, and what it
// misses.
func unignored(t *testing.T, d vfs.Dir, pattern, after string) (found, missed []string) {
	t.Helper()
	p, err := search.Compile(pattern)
	check.OK(t, err)
	check.OK(t, search.Search{
		Pattern: p, After: after, IgnoreFiles: true,
		Visit: func(path string, _ vfs.Kind, hit bool, _ int) bool {
			if hit {
				found = append(found, path)
			}
			return true
		},
		Missed: func(path string, err error) { missed = append(missed, path+" "+string(vfs.CodeOf(err))) },
	}.In(t.Context(), d))
	return found, missed
}

// naive finds the same by looking at everything. Names at a depth less than spelled are never
// left out.
func naive(t *testing.T, d vfs.Dir, pattern string, spelled int) (all []string) {
	t.Helper()
	p, err := search.Compile(pattern)
	check.OK(t, err)
	var walk func(d vfs.Dir, path string, depth int, out *ignore.Dir)
	walk = func(d vfs.Dir, path string, depth int, out *ignore.Dir) {
		out, _ = out.Load(t.Context(), d, nil, func(name string, err error) { t.Errorf("%s: %v", name, err) })
		for e, err := range d.List(t.Context()) {
			check.OK(t, err)
			at := vfs.Join(path, e.Name)
			if depth >= spelled && out.Ignored(e.Name, e.Kind == vfs.DirKind) {
				continue
			}
			if p.Match(at) {
				all = append(all, at)
			}
			if e.Kind == vfs.DirKind {
				n, err := d.Lookup(t.Context(), e.Name)
				check.OK(t, err)
				walk(n.(vfs.Dir), at, depth+1, out.Enter(e.Name))
				n.Close()
			}
		}
	}
	walk(d, "", 0, &ignore.Dir{})
	return all
}

// TestFindIgnoring compares with the naive search, whole and continued from every place.
func TestFindIgnoring(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 3))
	rules := []string{"a", "b/", "*.go", "!a/", "/ab", "a/b", "!c.go", "**/a-b", "a.*", ".x"}
	lookers := map[string]int{"**": 0, "*": 0, "a": 1, "a/*": 1, "a/b": 2, "**/a": 0, "a/**": 1, "*/a": 0, "**/*.go": 0, "ab/b/**": 2}
	left := 0
	for range 40 {
		tree := randomTree(rng)
		for _, path := range slices.Sorted(maps.Keys(tree)) {
			n := tree[path]
			if n.Dir && rng.IntN(2) == 0 || rng.IntN(8) == 0 {
				dir := ""
				if i := strings.LastIndexByte(path, '/'); i > 0 {
					dir = path[:i+1]
				}
				text := ""
				for range 1 + rng.IntN(4) {
					text += rules[rng.IntN(len(rules))] + "\n"
				}
				tree[dir+[]string{".gitignore", ".ignore"}[rng.IntN(2)]] = vfstest.Node{Data: text}
			}
		}
		_, raw := check.Store(t, tree)
		for _, d := range []vfs.Dir{raw, membrane.Guarded(raw, nil), scanning{raw}, membrane.Guarded(scanning{raw}, nil)} {
			for pattern, spelled := range lookers {
				want := naive(t, d, pattern, spelled)
				got, _ := unignored(t, d, pattern, "")
				if !slices.Equal(got, want) {
					t.Fatalf("%s in %v: %q, want %q", pattern, tree, got, want)
				}
				left += len(check.Naive(t, d, pattern)) - len(want)
				for i := range want {
					if rest, _ := unignored(t, d, pattern, want[i]); !slices.Equal(rest, want[i+1:]) {
						t.Fatalf("%s after %s in %v: %q, want %q", pattern, want[i], tree, rest, want[i+1:])
					}
				}
			}
		}
	}
	if left < 100 {
		t.Errorf("%d were left out in all", left)
	}
}

// What precedes the ignore files in a listing is left out, too, and so it is in a directory
// with more names there than are held back.
func TestFindIgnoringEarlyNames(t *testing.T) {
	tree := vfstest.Tree{".ignore": {Data: "!*\n!/d/\n-*\n"}, "!a": {}, "-a": {}, "z": {}}
	for i := range 300 {
		tree[fmt.Sprintf("d/-%03d", i)] = vfstest.Node{}
	}
	tree["d/.ignore"], tree["d/y"] = vfstest.Node{Data: "!-005\n"}, vfstest.Node{}
	_, raw := check.Store(t, tree)
	for _, d := range []vfs.Dir{raw, scanning{raw}} {
		got, _ := unignored(t, d, "**", "")
		sameNames(t, "what is left", got, []string{"!a", ".ignore", "d", "d/-005", "d/.ignore", "d/y", "z"})
	}
}

// What cannot be read of the ignore files is missed; what policy withholds of them does not
// count.
func TestFindIgnoringMissed(t *testing.T) {
	_, raw := check.Store(t, vfstest.Tree{"a/.gitignore": {Data: "x"}, "a/x": {}, "big/.gitignore": {Data: "x\n#" + strings.Repeat("y", ignore.MaxFile)}, "big/x": {}})
	plan := &faultfs.Plan{}
	plan.Fail(faultfs.ReadAt, faultfs.Before, 1, vfs.Busy)
	found, missed := unignored(t, faultfs.New(raw, plan), "*/x", "")
	sameNames(t, "found", found, []string{"a/x", "big/x"})
	sameNames(t, "missed", missed, []string{"a/.gitignore busy", "big/.gitignore tooLarge"})
	for _, d := range []vfs.Dir{raw, scanning{raw}} {
		found, missed = unignored(t, d, "*/*", "")
		sameNames(t, "found", found, []string{"a/.gitignore", "big/.gitignore", "big/x"})
		sameNames(t, "missed", missed, []string{"big/.gitignore tooLarge"})
		hides := membrane.Guard{Hides: membrane.MatchPaths(func(path string) bool { return strings.HasSuffix(path, ".gitignore") })}
		found, missed = unignored(t, membrane.Guarded(d, nil, hides), "*/*", "")
		sameNames(t, "found behind a guard", found, []string{"a/x", "big/x"})
		sameNames(t, "missed behind a guard", missed, nil)
	}
}

func TestNoHidden(t *testing.T) {
	_, d := check.Store(t, vfstest.Tree{".a/b": {}, ".a/.c": {}, "d/.e": {}, "d/f": {}, ".g": {}})
	for pattern, want := range map[string]string{
		"**": "d d/f", "*": "d", ".*": ".a .g", ".a/*": ".a/b", "**/.e": "d/.e", ".a/**": ".a .a/b", `\.g`: ".g", "{.a,d}/*": ".a/b d/f", "[.]g": "", "?g": "",
	} {
		p, err := search.Compile(pattern)
		check.OK(t, err)
		p = p.NoHidden()
		var got []string
		check.OK(t, check.Find(t.Context(), d, p, "", func(path string, _ vfs.Kind, hit bool, _ int) bool {
			if hit {
				got = append(got, path)
			}
			if hit != p.Match(path) {
				t.Errorf("%s matches %s: %v", pattern, path, !hit)
			}
			return true
		}))
		sameNames(t, pattern, got, strings.Fields(want))
	}
}
