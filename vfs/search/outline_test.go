package search_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"capd/vfs"
	"capd/vfs/membrane"
	"capd/vfs/search"
	"capd/vfs/vfstest"
	"capd/vfs/vfstest/check"
)

// outlined returns the branches of d as text: path, and what is not shown of it.
func outlined(t *testing.T, d vfs.Dir, o search.Outline) (all []string, branches []search.Branch) {
	t.Helper()
	o.Depth, o.Entries, o.Bytes, o.Work = orMost(o.Depth), orMost(o.Entries), orMost(o.Bytes), orMost(o.Work)
	branches, err := o.Of(t.Context(), d)
	check.OK(t, err)
	for _, b := range branches {
		text := b.Name
		if b.More > 0 || b.AtLeast {
			text += fmt.Sprintf("+%d", b.More)
		}
		if b.AtLeast {
			text += "?"
		}
		if b.Left > 0 {
			text += fmt.Sprintf("-%d", b.Left)
		}
		all = append(all, text)
	}
	return all, branches
}

func orMost(n int) int {
	if n == 0 {
		return 1 << 30
	}
	return n
}

func TestOutline(t *testing.T) {
	tree := vfstest.Tree{"a/b/c": {}, "a/b/d": {}, "a/e": {}, "a/f": {}, "a/g/h": {}, "i": {}, "j": {Link: "a"}, ".k/l": {}, "m/n.o": {}, "m/q": {}, ".gitignore": {Data: "*.o\n"}, "secret/x": {}, "a/secret": {}}
	_, raw := check.Store(t, tree)
	hides := membrane.Guard{Hides: membrane.MatchPaths(func(path string) bool { return strings.HasSuffix(path, "secret") })}
	for _, d := range []vfs.Dir{membrane.Guarded(raw, nil, hides), membrane.Guarded(scanning{raw}, nil, hides)} {
		for _, c := range []struct {
			o    search.Outline
			want string
		}{
			{search.Outline{}, " .gitignore .k .k/l a a/b a/b/c a/b/d a/e a/f a/g a/g/h i j m m/n.o m/q"},
			{search.Outline{Depth: 1}, " .gitignore .k+1 a+4 i j m+2"},
			{search.Outline{Depth: 1, IgnoreFiles: true, NoHidden: true}, "-2 a+4 i j m+1-1"},
			{search.Outline{Entries: 4}, "+2 .gitignore .k+1 a+4 m+2"},
			{search.Outline{Entries: 10}, " .gitignore .k .k/l a+3 a/b+2 i j m m/n.o m/q"},
			{search.Outline{Bytes: 20}, "+1 .gitignore .k+1 a+4 i m+2"},
			{search.Outline{Work: 6}, " .gitignore .k+0? a+0? i j m+0?"},
			{search.Outline{Work: 3}, "+0? .gitignore .k+0? a+0?"},
		} {
			if got, _ := outlined(t, d, c.o); strings.Join(got, " ") != c.want {
				t.Errorf("%+v: %q, want %q", c.o, strings.Join(got, " "), c.want)
			}
		}
	}
	d, c, _ := check.Guarded(t, tree)
	check.OK(t, c.Revoke())
	_, err := search.Outline{Depth: 9, Entries: 9, Bytes: 99, Work: 99}.Of(t.Context(), d)
	check.Is(t, "revoked", err, vfs.Revoked)
}

// TestOutlineBounds: whatever the bounds are, no level is cut while there is room below it,
// and what is shown and what is not are all that there is.
func TestOutlineBounds(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 5))
	for range 60 {
		tree := randomTree(rng)
		for i := range 300 * rng.IntN(2) {
			tree[fmt.Sprintf("w%d/x%d/f", i%97, i)] = vfstest.Node{}
		}
		_, raw := check.Store(t, tree)
		whole := check.Naive(t, raw, "**")
		for _, d := range []vfs.Dir{raw, membrane.Guarded(scanning{raw}, nil)} {
			if got, _ := outlined(t, d, search.Outline{}); !slices.Equal(got[1:], whole) {
				t.Fatalf("all: %q, want %q", got, whole)
			}
			most := 1 + rng.IntN(len(whole)+1)
			_, all := outlined(t, d, search.Outline{Entries: most})
			if len(all)-1 != min(most, len(whole)) {
				t.Fatalf("%d branches of %d, with room for %d", len(all)-1, len(whole), most)
			}
			shown, cut, deepest := map[string]int{}, 1<<20, 0
			for _, b := range all[1:] {
				shown[vfs.Join("", b.Name[:max(0, strings.LastIndexByte(b.Name, '/'))])]++
				deepest = max(deepest, b.Depth)
			}
			for _, b := range all {
				entries := 0
				for _, path := range whole {
					if rest, ok := strings.CutPrefix(path, b.Name+"/"); (ok || b.Name == "") && !strings.Contains(strings.TrimPrefix(rest, "/"), "/") {
						entries++
					}
				}
				if b.Kind == vfs.DirKind && shown[b.Name]+b.More != entries {
					t.Fatalf("%q shows %d and misses %d of %d", b.Name, shown[b.Name], b.More, entries)
				}
				if b.More > 0 {
					cut = min(cut, b.Depth)
				}
			}
			if deepest > cut+1 {
				t.Fatalf("level %d is cut, and %d shown", cut+1, deepest)
			}
		}
	}
}
