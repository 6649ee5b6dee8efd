package search_test

import (
	"fmt"
	"path"
	"strings"
	"testing"
	"time"

	"capd/vfs"
	"capd/vfs/search"
	"capd/vfs/vfstest/check"
)

func TestPattern(t *testing.T) {
	for _, c := range []struct {
		pattern string
		yes, no string // paths, separated by spaces
	}{
		{"a", "a", "b a/b b/a aa A"},
		{"a/b", "a/b", "a b a/b/c a/b/b"},
		{"*", "a .a ab", "a/b"},
		{"*.go", "a.go .go a.b.go", "a.goo a/b.go go"},
		{"a*b*c", "abc axbxc abbc", "ab acb abcd"},
		{"ab*ba", "abba abxba", "aba abab"},
		{"?", "a é .", "ab a/b"},
		{"a?c", "abc aéc", "ac abbc a/c"},
		{"[abc]", "a b c", "d ab [abc]"},
		{"[a-c]x", "ax cx", "dx x -x"},
		{"[^a]", "b é", "a bb"},
		{"[!a]", "b ! ^", "a"},
		{"[a!]", "a !", "b"},
		{`\[!a]`, "[!a]", "[^a] b"},
		{`[\]!]`, "] !", "a"},
		{`[[!]`, "[ !", "^ a"},
		{`\*`, "*", "a"},
		{`\{a,b\}`, "{a,b}", "a b"},
		{"**", "a a/b a/b/c", ""},
		{"**/a", "a b/a b/c/a a/a", "b a/b ab"},
		{"a/**", "a a/b a/b/c", "b b/a ab"},
		{"a/**/b", "a/b a/x/b a/x/y/b a/b/b", "a b a/b/c"},
		{"**/a/**", "a b/a a/b b/a/c", "b ab"},
		{"**/**/a", "a b/a b/c/a", "b"},
		{"a/**/**/**", "a a/b a/b/c", "b"},
		{"**/*.go", "a.go b/a.go", "a.go/b"},
		{"a/*/**/d", "a/b/d a/b/c/d", "a/d"},
		{"**a", "a ba", "b/a"},
		{"a**", "a ab", "a/b"},
		{"{a,b}", "a b", "c a,b {a,b}"},
		{"{a,b/c}/d", "a/d b/c/d", "b/d c/d"},
		{"{a,{b,c}d}", "a bd cd", "b c d ad"},
		{"x{,y}", "x xy", "y"},
		{"{a}", "a", "{a}"},
		{"{a,b}{c,d}", "ac ad bc bd", "ab cd a"},
		{"a}", "a}", "a"},
		{"[{]", "{", "["},
		{"[{,}]a", "{a ,a }a", "a"},
		{"{[,],a}", ", a", "[ ]"},
		{"*.{js,ts{,x}}", "a.js a.ts a.tsx", "a.jsx a"},
	} {
		p, err := search.Compile(c.pattern)
		if err != nil {
			t.Errorf("%s: %v", c.pattern, err)
			continue
		}
		for _, path := range strings.Fields(c.yes) {
			if !p.Match(path) {
				t.Errorf("%s does not match %s", c.pattern, path)
			}
		}
		for _, path := range strings.Fields(c.no) {
			if p.Match(path) {
				t.Errorf("%s matches %s", c.pattern, path)
			}
		}
	}
}

func TestPatternRefused(t *testing.T) {
	for _, pattern := range []string{
		"", "/", "/a", "a/", "a//b", ".", "a/..", "../a", "[", "[a", "a[", "[]", "[a-]", `a\`, "{", "{a", "{a,{b}", "{a,}", "{/a,b}", "[a/b]",
		strings.Repeat("{a,b}", 7), "{" + strings.Repeat("a,", 64) + "a}", "{" + strings.Repeat(",", 4000) + "}",
	} {
		if _, err := search.Compile(pattern); vfs.CodeOf(err) != vfs.Invalid {
			t.Errorf("%.40s: %v", pattern, err)
		}
	}
	for _, pattern := range []string{strings.Repeat("{a,b}", 6), "{" + strings.Repeat("a,", 63) + "a}"} {
		_, err := search.Compile(pattern)
		check.OK(t, err)
	}
	for _, pattern := range []string{strings.Repeat("a", 4096), strings.Repeat("a/", 128) + "a"} {
		if _, err := search.Compile(pattern); vfs.CodeOf(err) != vfs.Limit {
			t.Errorf("%.40s: %v", pattern, err)
		}
	}
}

func TestPatternIsFast(t *testing.T) {
	bomb := strings.Repeat("{a,aa}", 30)
	begun := time.Now()
	for range 10 {
		_, err := search.Compile(bomb)
		check.Is(t, "a bomb of braces", err, vfs.Invalid)
	}
	if took := time.Since(begun) / 10; took > 10*time.Millisecond {
		t.Errorf("refusing took %v", took)
	}
	var worst []string
	for i := range 64 {
		worst = append(worst, fmt.Sprint("*", i%10))
	}
	deep := strings.Repeat("a/", 126) + "b"
	for _, pattern := range []string{
		strings.Repeat("**/", 127) + "b",
		"{" + strings.Join(worst, ",") + "}/" + strings.Repeat("**/*/", 40) + "b",
		"{" + strings.Join(worst, ",") + "}/" + strings.Repeat("**/", 120) + "b",
	} {
		p, err := search.Compile(pattern)
		check.OK(t, err)
		begun := time.Now()
		p.Match(deep)
		if took := time.Since(begun); took > 200*time.Millisecond {
			t.Errorf("%.30s took %v", pattern, took)
		}
	}
	p, err := search.Compile(strings.Repeat("*a", 120) + "b")
	check.OK(t, err)
	begun = time.Now()
	p.Match(strings.Repeat("a", 255))
	if took := time.Since(begun); took > 10*time.Millisecond {
		t.Errorf("stars took %v", took)
	}
}

// slow reports whether names match a pattern without braces. It tries everything.
func slow(pattern, names []string) bool {
	switch {
	case len(pattern) == 0:
		return len(names) == 0
	case pattern[0] == "**":
		return slow(pattern[1:], names) || len(names) > 0 && slow(pattern, names[1:])
	case len(names) == 0:
		return false
	}
	hit, _ := path.Match(pattern[0], names[0])
	return hit && slow(pattern[1:], names[1:])
}

// TestPatternStates tries every pattern and path of a small alphabet.
func TestPatternStates(t *testing.T) {
	var words func(alphabet []string, length int) [][]string
	words = func(alphabet []string, length int) (all [][]string) {
		if length == 0 {
			return [][]string{nil}
		}
		for _, w := range words(alphabet, length-1) {
			for _, a := range alphabet {
				all = append(all, append(w[:len(w):len(w)], a))
			}
		}
		return append(all, words(alphabet, length-1)...)
	}
	for _, w := range words([]string{"a", "*", "**", "b"}, 4) {
		if len(w) == 0 {
			continue
		}
		p, err := search.Compile(strings.Join(w, "/"))
		check.OK(t, err)
		for _, names := range words([]string{"a", "b"}, 4) {
			if len(names) == 0 {
				continue
			}
			if got, want := p.Match(strings.Join(names, "/")), slow(w, names); got != want {
				t.Fatalf("%v on %v: %v", w, names, got)
			}
		}
	}
}

func FuzzPattern(f *testing.F) {
	for _, pattern := range []string{"**/*.go", "{a,{b,c}/d}", "[!a-z]", `\{`, "a/**/b", "[", "{{{{", "{a,aa}{a,aa}", "**", "[[!]", "é[é-ü]", "\xff*", "{,}"} {
		f.Add(pattern, "a/b/c.go")
		f.Add(pattern, "")
		f.Add(pattern, "\xff/\x00//")
	}
	f.Fuzz(func(t *testing.T, pattern, path string) {
		if len(path) > vfs.MaxPath {
			return
		}
		if len(pattern) < 200 { // it takes its time
			checkExpand(t, pattern)
		}
		begun := time.Now()
		p, err := search.Compile(pattern)
		if err != nil {
			if code := vfs.CodeOf(err); code != vfs.Invalid && code != vfs.Limit {
				t.Errorf("%v, want invalid or limit", err)
			}
			return
		}
		hit := p.Match(path)
		if took := time.Since(begun); took > 2*time.Second {
			t.Errorf("took %v", took)
		}
		s := p.Start()
		for name := range strings.SplitSeq(path, "/") {
			s = p.Step(s, name)
			for i := 1; i < len(s); i++ {
				if s[i-1] >= s[i] {
					t.Fatalf("a state out of order: %v", s)
				}
			}
		}
		if hit != p.Matched(s) {
			t.Error("by steps it is otherwise")
		}
		if !strings.ContainsAny(pattern, `*?[]{}\`) && hit != (pattern == path) {
			t.Errorf("a plain pattern: %v", hit)
		}
	})
}

// Equal alternatives count once, and all together are bounded.
func TestPatternAlternatives(t *testing.T) {
	p, err := search.Compile("{" + strings.Repeat("*,", 63) + "*}/" + strings.Repeat("*/", 100) + "x")
	check.OK(t, err)
	if n := len(p.Start()); n != 1 {
		t.Errorf("equal alternatives begin at %d places", n)
	}
	var alts []string
	for i := range 64 {
		alts = append(alts, fmt.Sprint("*", i))
	}
	all := "{" + strings.Join(alts, ",") + "}"
	_, err = search.Compile(all + strings.Repeat("/**/*", 7))
	check.OK(t, err)
	_, err = search.Compile(all + strings.Repeat("/**/*", 8))
	check.Is(t, "too long together", err, vfs.Invalid)
}
