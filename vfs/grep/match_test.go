package grep

import (
	"bytes"
	"fmt"
	"regexp"
	"strings"
	"testing"

	"capd/vfs"
)

// byRegexp returns the numbers of the lines of text that match, from 1, by package regexp.
func byRegexp(t testing.TB, pattern string, how Syntax, text []byte) (numbers []int64) {
	t.Helper()
	expr := pattern
	if how.Fixed {
		expr = regexp.QuoteMeta(expr)
	}
	if how.Words {
		expr = `(?:\A|[^\pL\pM\pN_])(?:` + expr + `)(?:\z|[^\pL\pM\pN_])`
	}
	if how.IgnoreCase {
		expr = "(?i)" + expr
	}
	re, err := regexp.Compile(expr)
	if err != nil {
		t.Fatalf("%q: %v", pattern, err)
	}
	p, err := Compile(pattern, how)
	if err != nil {
		t.Fatalf("%q: %v", pattern, err)
	}
	for n, line := range bytes.SplitAfter(text, []byte("\n")) {
		if len(line) == 0 {
			continue
		}
		line = bytes.TrimSuffix(line, []byte("\n"))
		if !p.keepCR {
			line = bytes.TrimSuffix(line, []byte("\r"))
		}
		if re.Match(line) {
			numbers = append(numbers, int64(n+1))
		}
	}
	return numbers
}

// byWindows returns the same by a search of windows.
func byWindows(t testing.TB, pattern string, how Syntax, text []byte, buf int) (numbers []int64) {
	t.Helper()
	p, err := Compile(pattern, how)
	if err != nil {
		t.Fatalf("%q: %v", pattern, err)
	}
	f := &fileSearch{searcher: newSearcher(p), show: Show{LineBytes: 100}, room: room{1 << 30, 1 << 30}}
	if buf == 0 {
		f.window(text, true)
	} else if _, err := f.stream(t.Context(), textOf(text), make([]byte, buf), 0); err != nil {
		t.Fatal(err)
	}
	for _, l := range f.Lines {
		numbers = append(numbers, l.Number)
	}
	if int64(len(numbers)) != f.Count && !f.Binary {
		t.Errorf("%q: %d lines, and %d are counted", pattern, len(numbers), f.Count)
	}
	return numbers
}

type content struct{ *bytes.Reader }

func (content) Close() error  { return nil }
func (c content) Size() int64 { return c.Reader.Size() }

func textOf(b []byte) vfs.Content { return content{bytes.NewReader(b)} }

func checkSame(t testing.TB, pattern string, how Syntax, text []byte) {
	t.Helper()
	if bytes.IndexByte(text, 0) >= 0 {
		return
	}
	want := fmt.Sprint(byRegexp(t, pattern, how, text))
	for _, buf := range []int{0, 16} {
		if got := fmt.Sprint(byWindows(t, pattern, how, text, buf)); got != want {
			t.Fatalf("%q %+v in %q, window %d: lines %s, want %s", pattern, how, text, buf, got, want)
		}
	}
}

var patterns = []string{
	"", "a", "foo", "foo|bar", "foo|bar|baz|qux", "^foo", "foo$", "^$", "^", "$", `\bfoo\b`, `\Boo`, "f.o", "f[a-z]+o", "[^a]", "(foo|bar)+baz",
	"a*", "x*y", "(?i)foo", "(?i)kelvin", "(?i)mask", "(?i)straße", "(?i)É", "ß", "é+", `\pL{3}`, `[a-z]{3}\d{4}`, `func \w+Handler`, `\r$`, "foo\\r", ".*", "a.{3}b",
	"(?s).", "(?m)^a$", `\Aa`, `a\z`, "[[:upper:]]+", "(a|b)*c|d", `\xff`, "�", `[^\x00-\x7f]`, "foo.*bar", "foo(?:bar)?baz", "((((a))))", "a{0}b", "a{2,}", "(?:)",
}

var texts = []string{
	"", "\n", "\n\n", "foo", "foo\n", "foo\r\nbar\r\n", "a foo b\nbar\nfoobar\n\nbaz", "FOO Foo fOO\nKELVIN \u212Aelvin kelvin\nma\u017F\u212A mask MASK\n", "straße STRASSE\nÉ é e\u0301\n",
	"abc1234 ABC1234\nfunc myHandler(\n", "\xff\xfe caf\xe9\n\xc3\x28 é\n", "x\ry\nfoo\r", "aXYZb\na\nb\nd\nc\n", strings.Repeat("0123456789", 30) + "foo\nfoo" + strings.Repeat("é", 99) + "\nbar",
	"größe gr öße\n_foo_ foo_ foo9 foo-\n", "日本語\nfoo日foo 日foo日\n",
}

func TestSameAsRegexp(t *testing.T) {
	for _, pattern := range patterns {
		for _, text := range texts {
			for _, how := range []Syntax{{}, {IgnoreCase: true}, {Words: true}, {Fixed: true}, {IgnoreCase: true, Words: true}} {
				if how.Fixed && strings.ContainsAny(pattern, "\n") {
					continue
				}
				checkSame(t, pattern, how, []byte(text))
			}
		}
	}
}

func FuzzSameAsRegexp(f *testing.F) {
	for i, pattern := range patterns {
		f.Add(pattern, i%2 == 0, i%3 == 0, i%5 == 0, []byte(texts[i%len(texts)]))
	}
	f.Fuzz(func(t *testing.T, pattern string, ignoreCase, words, fixed bool, text []byte) {
		how := Syntax{ignoreCase, words, fixed}
		if _, err := Compile(pattern, how); err != nil {
			if code := vfs.CodeOf(err); code != vfs.Invalid && code != vfs.Limit {
				t.Errorf("%q: %v", pattern, err)
			}
			return
		}
		checkSame(t, pattern, how, text)
	})
}

// The states that a pattern needs may be more than are kept.
func TestManyStates(t *testing.T) {
	var text []byte
	for i := range 30_000 {
		text = append(text, "ab\n"[(i*i*7+i/13)%2+(i%997/996)])
	}
	checkSame(t, "a.{14}b.{3}a$", Syntax{}, text)
	p, err := Compile("a.{14}b.{3}a$", Syntax{})
	if err != nil {
		t.Fatal(err)
	}
	s := newSearcher(p)
	for at := 0; at < len(text); {
		l, ok := s.next(text, at)
		if !ok {
			break
		}
		at = l.to + 1
	}
	if len(s.dfa.sets) > maxStates {
		t.Errorf("%d states are kept, and %d may be", len(s.dfa.sets), maxStates)
	}
}

func TestRefused(t *testing.T) {
	for _, c := range []struct {
		pattern string
		want    vfs.Code
	}{
		{"(", vfs.Invalid}, {"a\\", vfs.Invalid}, {"[", vfs.Invalid}, {"*", vfs.Invalid}, {"(?=a)", vfs.Invalid}, {`(a)\1`, vfs.Invalid},
		{"a\nb", vfs.Invalid}, {`a\nb`, vfs.Invalid}, {"(a{1000}){1000}", vfs.Invalid}, {"(a{100}){100}", vfs.Invalid}, {"a{1001}", vfs.Invalid},
		{strings.Repeat("(a{30}b){30}|", 70) + "c", vfs.Invalid}, {strings.Repeat("(", 1000) + strings.Repeat(")", 1000), vfs.Limit},
		{strings.Repeat("[a-z]{1000}", 90), vfs.Invalid}, {strings.Repeat("x", MaxPattern+1), vfs.Limit}, {strings.Repeat("((a*)*)*", 100), ""},
		{strings.Repeat("x", MaxPattern), ""}, {strings.Repeat("a|b|", 200) + "c", ""}, {"[a-z]{900}", ""}, {"(x+x+)+y", ""},
	} {
		if _, err := Compile(c.pattern, Syntax{}); vfs.CodeOf(err) != c.want && (err != nil || c.want != "") {
			t.Errorf("%.40q: %v, want %v", c.pattern, err, c.want)
		}
	}
}
