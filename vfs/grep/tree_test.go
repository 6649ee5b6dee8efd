package grep_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"capd/vfs"
	"capd/vfs/deny"
	"capd/vfs/grep"
	"capd/vfs/ignore"
	"capd/vfs/membrane"
	"capd/vfs/search"
	"capd/vfs/vfstest"
	"capd/vfs/vfstest/check"
)

func pattern(t *testing.T, text string) *grep.Pattern {
	t.Helper()
	p, err := grep.Compile(text, grep.Syntax{})
	check.OK(t, err)
	return p
}

// run searches to the end, by pages as s says, and returns what it shows: "PATH:NUMBER:TEXT",
// with - for lines around, and "PATH:COUNT" where no lines are shown.
func run(t *testing.T, d vfs.Dir, s grep.Search) (shown []string, pages int) {
	t.Helper()
	s.Show.LineBytes = 200
	s.Found = func(f grep.File) {
		if len(f.Lines) == 0 {
			shown = append(shown, fmt.Sprintf("%s:%d %v", f.Path, f.Count, f.Binary))
		}
		for _, l := range f.Lines {
			sep := "-"
			if l.Match {
				sep = ":"
			}
			shown = append(shown, fmt.Sprint(f.Path, sep, l.Number, sep, l.Text))
		}
	}
	s.Missed = func(path string, err error) { t.Errorf("missed %s: %v", path, err) }
	for more := true; more; pages++ {
		var next grep.Cursor
		var err error
		next, more, err = s.In(t.Context(), d)
		check.OK(t, err)
		if more && next == s.From || pages > 1000 {
			t.Fatalf("no progress after %q", next)
		}
		s.From, err = grep.ParseCursor(next.String())
		check.OK(t, err)
	}
	return shown, pages
}

var searched = vfstest.Tree{
	"a/1.go": {Data: "one\ntwo hit\nthree\nfour\nfive hit\n"}, "a/b/2.go": {Data: "hit"}, "a.go": {Data: "none\n"}, "a/.hidden/h": {Data: "hit\n"},
	"bin": {Data: "hit\x00hit\n"}, "many": {Data: strings.Repeat("a hit\nno\n", 300)}, "z/ignored.log": {Data: "hit\n"}, "z/.gitignore": {Data: "*.log\nout/\n"},
	"z/out/x": {Data: "hit"}, "z/kept": {Data: "hit\r\n"}, "long": {Data: strings.Repeat("no\n", 120_000) + "hit\nafter\n"}, "key.pem": {Data: "hit"},
	"link": {Link: "a"}, "empty": {},
}

func TestTree(t *testing.T) {
	all := []string{"a/.hidden/h:1:hit", "a/1.go:2:two hit", "a/1.go:5:five hit", "a/b/2.go:1:hit", "bin:1 true", "long:120001:hit"}
	for i := range 300 {
		all = append(all, fmt.Sprintf("many:%d:a hit", 2*i+1))
	}
	all = append(all, "z/ignored.log:1:hit", "z/kept:1:hit", "z/out/x:1:hit")
	leaving := func(parts ...string) (less []string) {
		for _, line := range all {
			if !slices.ContainsFunc(parts, func(p string) bool { return strings.Contains(line, p) }) {
				less = append(less, line)
			}
		}
		return less
	}
	glob := func(text string) []*search.Pattern {
		p, err := search.Compile(text)
		check.OK(t, err)
		return []*search.Pattern{p}
	}
	_, raw := check.Store(t, searched)
	guarded := membrane.Guarded(raw, nil, deny.Must("**/*.pem").Guard())
	slow := membrane.Guarded(raw, nil, deny.Must("**/*.pem").Guard(), membrane.Guard{
		Around: func(ctx context.Context, _ membrane.Op, do func(context.Context) (vfs.Effect, error)) (vfs.Effect, error) {
			return do(ctx)
		},
	})
	for name, d := range map[string]vfs.Dir{"guarded": guarded, "guarded around reads": slow} {
		for _, c := range []struct {
			name string
			s    grep.Search
			want []string
		}{
			{"all", grep.Search{}, all},
			{"without hidden names", grep.Search{NoHidden: true}, leaving(".hidden")},
			{"without ignored names", grep.Search{Ignore: &ignore.Dir{}}, leaving("ignored.log", "out/")},
			{"go alone", grep.Search{Only: glob("**/*.go")}, []string{"a/1.go:2:two hit", "a/1.go:5:five hit", "a/b/2.go:1:hit"}},
			{"two globs", grep.Search{Only: slices.Concat(glob("a/*.go"), glob("z/k*"))}, []string{"a/1.go:2:two hit", "a/1.go:5:five hit", "z/kept:1:hit"}},
			{"not below", grep.Search{Except: slices.Concat(glob("a"), glob("many"), glob("z/**"))}, []string{"bin:1 true", "long:120001:hit"}},
			{"names", grep.Search{Show: grep.Show{Output: grep.Names}, Except: glob("z")}, []string{"a/.hidden/h:1 false", "a/1.go:1 false", "a/b/2.go:1 false", "bin:1 true", "long:1 false", "many:1 false"}},
			{"counts", grep.Search{Show: grep.Show{Output: grep.Counts}, Except: glob("z")}, []string{"a/.hidden/h:1 false", "a/1.go:2 false", "a/b/2.go:1 false", "bin:1 true", "long:1 false", "many:300 false"}},
			{"around", grep.Search{Show: grep.Show{Before: 1, After: 2}, Only: glob("{a/1.go,long,z/kept}")}, []string{"a/1.go-1-one", "a/1.go:2:two hit", "a/1.go-3-three", "a/1.go-4-four", "a/1.go:5:five hit", "long-120000-no", "long:120001:hit", "long-120002-after", "z/kept:1:hit"}},
		} {
			c.s.Pattern = pattern(t, "hit")
			got, pages := run(t, d, c.s)
			if !slices.Equal(got, c.want) || pages != 1 {
				t.Errorf("%s, %s: %d lines in %d pages, want %d:\n%s", name, c.name, len(got), pages, len(c.want), strings.Join(got, "\n"))
			}
			if c.s.Show.Before > 0 {
				continue // a page may begin between lines that are shown together
			}
			for _, bound := range []func(*grep.Search){
				func(s *grep.Search) { s.Matches = 1 }, func(s *grep.Search) { s.Matches = 7 }, func(s *grep.Search) { s.Bytes = 300 }, func(s *grep.Search) { s.Work, s.Matches, s.Bytes = 1, 1000, 1<<20 },
			} {
				s := c.s
				bound(&s)
				if got, pages := run(t, d, s); !slices.Equal(got, c.want) {
					t.Errorf("%s, %s, by %d pages: %d lines, want %d:\n%s", name, c.name, pages, len(got), len(c.want), strings.Join(got, "\n"))
				}
			}
		}
	}
}

// A file of one line, and one of many, are searched with little memory.
func TestLongLine(t *testing.T) {
	text := strings.Repeat("é0123456789", 60_000)
	_, raw := check.Store(t, vfstest.Tree{"f": {Data: "first\n" + text + "hit" + text + "\nlast hit"}})
	for _, expr := range []string{"hit", "^é.*hit", "9hité", "hit$|hité"} {
		var lines []grep.Line
		s := grep.Search{Pattern: pattern(t, expr), Show: grep.Show{LineBytes: 50}, Found: func(f grep.File) { lines = append(lines, f.Lines...) }}
		_, _, err := s.In(t.Context(), raw)
		check.OK(t, err)
		if len(lines) == 0 || lines[0].Number != 2 || lines[0].Size != int64(2*len(text)+3) || !strings.Contains(lines[0].Text, "hit") || len(lines[0].Text) > 50 {
			t.Errorf("%q: %+v", expr, lines)
		}
	}
}

func TestCursor(t *testing.T) {
	for _, text := range []string{"a\x00", "a\x001\x002", "a\x00-1\x000\x000", "a\x001\x002\x00101", "a\x001\x002\x003\x004", "a\x00x\x002\x003"} {
		_, err := grep.ParseCursor(text)
		check.Is(t, fmt.Sprintf("%q", text), err, vfs.Invalid)
	}
}
