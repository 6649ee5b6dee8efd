package search_test

import (
	"context"
	"fmt"
	"iter"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"capd/meter"
	"capd/vfs"
	"capd/vfs/faultfs"
	"capd/vfs/membrane"
	"capd/vfs/search"
	"capd/vfs/vfstest"
	"capd/vfs/vfstest/check"
)

func randomTree(rng *rand.Rand) vfstest.Tree {
	tree := vfstest.Tree{}
	names := []string{"a", "a.b", "a-b", "ab", "b", "c.go", ".x"}
	for range rng.IntN(25) {
		var path []string
		for range 1 + rng.IntN(4) {
			path = append(path, names[rng.IntN(len(names))])
		}
		whole := strings.Join(path, "/")
		free := true
		for have := range tree {
			free = free && !strings.HasPrefix(have, whole+"/") && !strings.HasPrefix(whole, have+"/") && have != whole
		}
		if free {
			tree[whole] = []vfstest.Node{{Dir: true}, {Data: "x"}, {Link: "a"}}[rng.IntN(3)]
		}
	}
	return tree
}

// TestFind compares with the naive search, whole and continued from every place.
func TestFind(t *testing.T) {
	rng := rand.New(rand.NewPCG(7, 7))
	patterns := []string{"**", "*", "a", "a/*", "a/b", "**/a", "a/**", "{a,b}/{a,b}/c.go", "**/*.go", "{a,ab}/**/b", "?", "a/**/a", "*/a", "*/a/*", "{a/b,**/ab}"}
	for range 60 {
		_, raw := check.Store(t, randomTree(rng))
		for _, d := range []vfs.Dir{raw, membrane.Guarded(raw, nil), scanning{raw}, membrane.Guarded(scanning{raw}, nil)} {
			everything := check.Naive(t, d, "**")
			for _, pattern := range patterns {
				want := check.Naive(t, d, pattern)
				if got := check.Hits(t, d, pattern, ""); !slices.Equal(got, want) {
					t.Fatalf("%s: %v, want %v", pattern, got, want)
				}
				for i, cut := range everything {
					var rest []string
					for _, path := range want {
						if slices.Index(everything, path) > i {
							rest = append(rest, path)
						}
					}
					if got := check.Hits(t, d, pattern, cut); !slices.Equal(got, rest) {
						t.Fatalf("%s after %s: %v, want %v", pattern, cut, got, rest)
					}
				}
			}
		}
	}
}

// TestFindPages stops after every entry and continues from there, also if that entry is
// gone.
func TestFindPages(t *testing.T) {
	_, raw := check.Store(t, check.Sample)
	p, err := search.Compile("**")
	check.OK(t, err)
	var all []string
	for after := ""; ; {
		last := after
		check.OK(t, check.Find(t.Context(), raw, p, after, func(path string, _ vfs.Kind, _ bool, _ int) bool {
			all = append(all, path)
			after = path
			return false
		}))
		if after == last {
			break
		}
	}
	if want := check.Naive(t, raw, "**"); !slices.Equal(all, want) {
		t.Errorf("%v, want %v", all, want)
	}
	for after, want := range map[string]string{
		"a/b/bb": "a/b/c a/b/c/f a/b/f a/f f l z", "a/zz/y": "f l z", "a": "a/b a/b/c a/b/c/f a/b/f a/f f l z", "f/x": "l z", "zz": "", "a/": "a/b a/b/c a/b/c/f a/b/f a/f f l z",
	} {
		if got := strings.Join(check.Hits(t, raw, "**", after), " "); got != want {
			t.Errorf("after %s: %s", after, got)
		}
	}
}

func TestFindErrors(t *testing.T) {
	p, err := search.Compile("**")
	check.OK(t, err)
	find := func(ctx context.Context, d vfs.Dir, p *search.Pattern) (n int, err error) {
		err = check.Find(ctx, d, p, "", func(string, vfs.Kind, bool, int) bool { n++; return true })
		return n, err
	}
	for code, want := range map[vfs.Code]vfs.Code{
		vfs.Denied: "", vfs.NotRegular: "", vfs.CrossDevice: "", vfs.Stale: "", vfs.NotFound: "", vfs.Busy: "",
		vfs.Revoked: vfs.Revoked, vfs.Expired: vfs.Expired, vfs.Limit: vfs.Limit,
	} {
		_, raw := check.Store(t, check.Sample)
		plan := &faultfs.Plan{}
		plan.Fail(faultfs.Lookup, faultfs.Before, 2, code) // of a/b
		n, err := find(t.Context(), faultfs.New(raw, plan), p)
		check.Is(t, string(code), err, want)
		if want == "" && n != 6 {
			t.Errorf("%s: saw %d", code, n)
		}
		plan.Fail(faultfs.List, faultfs.Before, 2, code)
		_, err = find(t.Context(), faultfs.New(raw, plan), p)
		check.Is(t, string(code)+" of list", err, want)
	}
	literal, err := search.Compile("a/b")
	check.OK(t, err)
	for _, p := range []*search.Pattern{p, literal} {
		d, c, _ := check.Guarded(t, check.Sample)
		c.SetReadable(false)
		_, err = find(t.Context(), d, p)
		check.Is(t, "unreadable", err, vfs.Denied)
		check.OK(t, c.Revoke())
		_, err = find(t.Context(), d, p)
		check.Is(t, "revoked", err, vfs.Revoked)
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		_, raw := check.Store(t, check.Sample)
		if _, err := find(ctx, raw, p); err != context.Canceled {
			t.Errorf("cancelled: %v", err)
		}
	}
	d, c, _ := check.Guarded(t, check.Sample)
	err = check.Find(t.Context(), d, p, "", func(path string, _ vfs.Kind, _ bool, _ int) bool {
		c.SetReadable(false)
		return true
	})
	check.Is(t, "unreadable midway", err, vfs.Denied)
}

// TestFindMissed: directories that a search could not look into are reported. Those that
// policy withholds, or that are gone, are not.
func TestFindMissed(t *testing.T) {
	missed := func(d vfs.Dir, pattern string) (all []string) {
		t.Helper()
		p, err := search.Compile(pattern)
		check.OK(t, err)
		check.OK(t, search.Search{
			Pattern: p,
			Visit:   func(string, vfs.Kind, bool, int) bool { return true },
			Missed:  func(path string, err error) { all = append(all, path+" "+string(vfs.CodeOf(err))) },
		}.In(t.Context(), d))
		return all
	}
	host := vfs.Errorf(vfs.Denied, "the host's own permissions do not allow this")
	for _, c := range []struct {
		name string
		op   faultfs.Op
		nth  int
		err  error
		want []string // of "**", and of names that are spelled out
	}{
		{"a listing that fails", faultfs.List, 2, vfs.Busy, []string{"a busy"}},
		{"a listing that its host denies", faultfs.List, 3, host, []string{"a/b denied"}},
		{"a directory that is stale", faultfs.List, 2, vfs.Stale, []string{"a stale"}},
		{"another file system", faultfs.Lookup, 2, vfs.CrossDevice, []string{"a/b crossDevice"}},
		{"a directory that its host denies", faultfs.Lookup, 2, host, []string{"a/b denied"}},
		{"a fault", faultfs.Lookup, 2, vfs.Hide(nil), []string{"a/b internal"}},
		{"what policy withholds", faultfs.Lookup, 2, vfs.Denied, nil},
		{"what has gone", faultfs.Lookup, 2, vfs.NotFound, nil},
		{"what is another thing now", faultfs.Lookup, 2, vfs.NotDir, nil},
	} {
		_, raw := check.Store(t, check.Sample)
		plan := &faultfs.Plan{}
		plan.Fail(c.op, faultfs.Before, c.nth, c.err)
		sameNames(t, c.name, missed(faultfs.New(raw, plan), "**"), c.want)
		if c.op == faultfs.Lookup {
			plan.Fail(c.op, faultfs.Before, 3, c.err)
			sameNames(t, c.name+", by name", missed(faultfs.New(raw, plan), "a/b/c"), c.want)
		}
	}
	_, raw := check.Store(t, check.Sample)
	sameNames(t, "all of it", missed(raw, "**"), nil)
	hides := membrane.Guard{Hides: membrane.MatchPaths(func(path string) bool { return path == "a/b" || path == "f" })}
	for _, pattern := range []string{"**", "a/b/*", "{a/b,f}", "a/b"} {
		sameNames(t, pattern+" of what policy withholds", missed(membrane.Guarded(raw, nil, hides), pattern), nil)
	}
}

// TestFindInTheDeep: what is too deep for a path is left out, and the rest is found.
func TestFindInTheDeep(t *testing.T) {
	_, raw := check.Store(t, vfstest.Tree{"z": {Data: "x"}})
	d := raw
	for i := range vfs.MaxDepth + 20 {
		next, err := d.Mkdir(t.Context(), fmt.Sprint("d", i%10))
		check.OK(t, err)
		d = next
	}
	for _, v := range []vfs.Dir{raw, membrane.Guarded(raw, nil), check.DirAt(t, membrane.Guarded(raw, nil), "d0"), check.DirAt(t, membrane.Guarded(raw, nil), "d0/d1/d2/d3")} {
		got := check.Hits(t, v, "**", "")
		if n := len(got); n < vfs.MaxDepth-4 || n > vfs.MaxDepth+1 {
			t.Errorf("found %d", n)
		}
	}
	if got := check.Hits(t, membrane.Guarded(raw, nil), "**", ""); got[len(got)-1] != "z" {
		t.Error("did not go on")
	}
}

func TestFindLeavesNothingOpen(t *testing.T) {
	d, l, _, _ := check.Metered(t, meter.Limits{meter.Nodes: 100})
	for _, pattern := range []string{"**", "a/b/f", "*/b/*", "l"} {
		check.Hits(t, d, pattern, "")
		if n := check.UsageOf(l).Open; n != 0 {
			t.Errorf("%s: %d are open", pattern, n)
		}
	}
}

// TestFindWork: the cost of an entry is reported with it.
func TestFindWork(t *testing.T) {
	_, raw := check.Store(t, check.Sample)
	check.OK(t, check.Put(t.Context(), raw, strings.Repeat("a", 250), ""))
	total := func(pattern string) (work, visits int) {
		p, err := search.Compile(pattern)
		check.OK(t, err)
		check.OK(t, check.Find(t.Context(), raw, p, "", func(_ string, _ vfs.Kind, _ bool, w int) bool {
			work += w
			visits++
			return true
		}))
		return work, visits
	}
	for _, plain := range []string{"**", "**/*.go", "**/*.{go,md}"} {
		if work, visits := total(plain); work > visits+8 {
			t.Errorf("%s: %d for %d entries", plain, work, visits)
		}
	}
	if work, visits := total("**/{" + strings.Repeat("*a", 500) + "b,*[" + strings.Repeat("bc", 500) + "]}"); work < 20*visits {
		t.Errorf("a nasty one: %d for %d entries", work, visits)
	}
	if work, _ := total("{b,c,d,e,g,h,i,j,z}"); work < 9 {
		t.Errorf("names that are looked up: %d", work)
	}
}

// listed counts the listed entries.
type listed struct {
	vfs.Dir
	n *int
}

func (d listed) List(ctx context.Context) iter.Seq2[vfs.Entry, error] {
	return func(yield func(vfs.Entry, error) bool) {
		for e, err := range d.Dir.List(ctx) {
			*d.n++
			if !yield(e, err) {
				return
			}
		}
	}
}

// An expensive pattern is matched against only a few entries before the first of them is
// reported, and never again against entries that were reported.
func TestFindOfMuchWork(t *testing.T) {
	_, raw := check.Store(t, vfstest.Tree{})
	for i := range 20 {
		check.OK(t, check.Put(t.Context(), raw, fmt.Sprintf("%02d", i), ""))
	}
	p, err := search.Compile("*[" + strings.Repeat("x", 4050) + "]{a,b}{a,b}{a,b}{a,b}{a,b}{a,b}")
	check.OK(t, err)
	first := func(after string) (path string, work, n int) {
		check.OK(t, check.Find(t.Context(), listed{raw, &n}, p, after, func(at string, _ vfs.Kind, _ bool, w int) bool {
			path, work = at, w
			return false
		}))
		return path, work, n
	}
	path, work, n := first("")
	if path != "00" || work < 1000 || n != 1 {
		t.Errorf("%s, with work of %d, after %d entries", path, work, n)
	}
	if path, again, _ := first("17"); path != "18" || again > 3*work {
		t.Errorf("then %s, with work of %d and not %d", path, again, work)
	}
}
