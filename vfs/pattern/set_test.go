package pattern_test

import (
	"slices"
	"strings"
	"testing"

	"capd/vfs"
	"capd/vfs/pattern"
	"capd/vfs/search"
)

// single reports whether a pattern matches path, by what matches one pattern alone.
func single(t *testing.T, text, path string) bool {
	t.Helper()
	raw, err := search.Compile(text)
	if err != nil {
		t.Fatal(err)
	}
	folded, err := search.Compile(pattern.Fold(text))
	if err != nil {
		t.Fatal(err)
	}
	return raw.Match(path) || folded.Match(pattern.Fold(path))
}

// checkSet compares a Set with each of its patterns alone, at every step to path.
func checkSet(t *testing.T, patterns []string, path string) *pattern.At {
	t.Helper()
	s, err := pattern.Compile(patterns, nil)
	if err != nil {
		return nil
	}
	at, whole := s.Start(), -1
	for n, name := range strings.Split(path, "/") {
		at = at.Step(name)
		here := strings.Join(strings.Split(path, "/")[:n+1], "/")
		for i, text := range patterns {
			if got, want := at.Matches(i), single(t, text, here); got != want {
				t.Errorf("%+q at %+q among %+q: %v, want %v", text, here, patterns, got, want)
			}
		}
		if any := slices.ContainsFunc(patterns, func(text string) bool { return single(t, text, here) }); any != at.Any() {
			t.Errorf("any of %+q at %+q: %v", patterns, here, at.Any())
		}
		if at.All() && whole < 0 {
			whole = n
		}
		if whole >= 0 && !at.Any() {
			t.Errorf("%+q match everything below name %d of %+q, but not name %d", patterns, whole, path, n)
		}
	}
	return at
}

var corpus = []struct{ patterns, path, other string }{
	{"**/.ssh/**\n**/.env\n**/.env.*\n**/*.pem", "a/.SSH/b.pem", "a/.env.d/x"},
	{"secret/*\nsecret/**\n**/x", "secret/a／b/x", "SECRET/A"},
	{"ÉCOLE\nstraße\n**/ab*ba", "E\u0301cole/x/abba", "STRASSE/abba"},
	{"[A-c]x\na?\n[A-C]x/**", "Zx/aß", "dx/a"},
	{"**\n**/A/**\na/*/**", "a/A/b/c", "b"},
	{"{a,b}/secret\n**/.git/hooks/**\na/**/x", "a/.git/hooks/x", "b/secret"},
	{"docs/**\n*/docs\n**/docs/**", "docs/docs/docs", "docs"},
	{"**/＊.pem\n**/［a］/x", "q.pem/a/x", "［a］/x"},
	{"a/b/c\nA/B/C\na/B", "A/b/C", "a/b"},
}

func TestSetEqualsSingles(t *testing.T) {
	for _, c := range corpus {
		checkSet(t, strings.Split(c.patterns, "\n"), c.path)
		checkSet(t, strings.Split(c.patterns, "\n"), c.other)
	}
}

// TestExact: an exact pattern matches the path as it is alone. May is never wrong about what
// can match below.
func TestExact(t *testing.T) {
	for _, c := range corpus {
		texts := strings.Split(c.patterns, "\n")
		s, err := pattern.Compile(texts[:1], texts[1:])
		if err != nil {
			t.Fatal(err)
		}
		for _, path := range []string{c.path, c.other} {
			names := strings.Split(path, "/")
			may := make([]bool, len(texts))
			for n := range names {
				at := s.At(strings.Join(names[:n+1], "/"))
				for i, text := range texts {
					p, err := search.Compile(text)
					if err != nil {
						t.Fatal(err)
					}
					want := p.Match(strings.Join(names[:n+1], "/"))
					if i == 0 {
						want = single(t, text, strings.Join(names[:n+1], "/"))
					}
					if at.Matches(i) != want {
						t.Errorf("%+q at %+q: %v, want %v", text, names[:n+1], at.Matches(i), want)
					}
					if n > 0 && want && !may[i] {
						t.Errorf("%+q matches %+q, but May was false above", text, names[:n+1])
					}
					may[i] = at.May(i)
				}
			}
		}
	}
}

// TestManyPatterns has more patterns than fit in an At itself.
func TestManyPatterns(t *testing.T) {
	var many []string
	for _, c := range corpus {
		for range 20 {
			many = append(many, strings.Split(c.patterns, "\n")...)
		}
	}
	for _, c := range corpus {
		checkSet(t, many, c.path)
	}
}

// FuzzSetEqualsSingles: a Set matches what each of its patterns matches alone, and where two
// paths are the same to it, it matches the same below them.
func FuzzSetEqualsSingles(f *testing.F) {
	for _, c := range corpus {
		f.Add(c.patterns, c.path, c.other, "x/.env")
	}
	f.Fuzz(func(t *testing.T, patterns, path, other, below string) {
		if len(patterns) > 200 || len(path)+len(other)+len(below) > 200 {
			return
		}
		for _, p := range []string{path, other, below} {
			if _, err := vfs.SplitPath(p); err != nil {
				return
			}
		}
		texts := strings.Split(patterns, "\n")
		one, two := checkSet(t, texts, path), checkSet(t, texts, other)
		if one == nil || two == nil {
			return
		}
		s, _ := pattern.Compile(texts, nil)
		if one, two = s.At(path), s.At(other); !one.Same(two) {
			return
		}
		for name := range strings.SplitSeq(below, "/") {
			one, two = one.Step(name), two.Step(name)
			for i := range texts {
				if one.Matches(i) != two.Matches(i) {
					t.Errorf("%+q: %+q and %+q are the same, but not with %+q below", texts, path, other, below)
				}
			}
		}
	})
}

// TestStepAllocatesNothing: a walk through names that no pattern matches allocates nothing.
func TestStepAllocatesNothing(t *testing.T) {
	for _, patterns := range [][]string{{"**/.git/**", "**/*.pem"}, {"docs/**", "docs/*/x", "**/.git/hooks"}} {
		s, err := pattern.Compile(patterns, nil)
		if err != nil {
			t.Fatal(err)
		}
		at := s.At("docs/a/b")
		if n := testing.AllocsPerRun(100, func() { at.Step("c").Step("d") }); n != 0 {
			t.Errorf("%q: %v allocations", patterns, n)
		}
	}
}
