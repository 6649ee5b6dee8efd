package ignore_test

import (
	"strings"
	"testing"
	"time"

	"capd/vfs"
	"capd/vfs/ignore"
	"capd/vfs/vfstest"
	"capd/vfs/vfstest/check"
)

// load returns the state of a directory with this .gitignore, and why it does not count.
func load(t *testing.T, above *ignore.Dir, text string) (*ignore.Dir, error) {
	t.Helper()
	_, d := check.Store(t, vfstest.Tree{".gitignore": {Data: text}})
	var failed error
	state, read := above.Load(t.Context(), d, nil, func(name string, err error) { failed = vfs.At(name, err) })
	if failed == nil && read != len(text) {
		t.Errorf("it read %d bytes of %d", read, len(text))
	}
	return state, failed
}

// TestHostile has rules that take long in a matcher that backtracks. A name takes at most
// as many steps as it has bytes times the characters of the rules.
func TestHostile(t *testing.T) {
	long := strings.Repeat("a", 255)
	for _, c := range []struct{ name, line string }{
		{"asterisks", strings.Repeat("*a", 2000) + "b"},
		{"asterisks and marks", strings.Repeat("*?", 2000) + "b"},
		{"two asterisks", strings.Repeat("**/a*/", 500) + "b"},
		{"asterisks in paths", strings.Repeat("*a*/", 500) + "**/b"},
		{"sets", strings.Repeat("*[!b]", 1000) + "b"},
		{"open brackets", strings.Repeat("[", 5000)},
		{"classes", strings.Repeat("[[:alpha:]]*", 500) + "b"},
		{"slashes", strings.Repeat("/", 5000) + "b"},
		{"backslashes", strings.Repeat(`\`, 5001)},
		{"too long for a path", strings.Repeat("?", 100_000)},
	} {
		d, err := load(t, &ignore.Dir{}, c.line)
		if err != nil {
			t.Errorf("%s: %v", c.name, err)
			continue
		}
		start, most := time.Now(), len(c.line)*(len(long)+1)
		for range 20 {
			ignored, steps := d.Compare(long, true)
			if ignored || steps > most {
				t.Errorf("%s: ignored: %v, after %d steps; there may be %d", c.name, ignored, steps, most)
			}
			d = d.Enter(long)
		}
		if took := time.Since(start); took > 5*time.Second {
			t.Errorf("%s: 20 names took %v", c.name, took)
		}
	}
}

// Bounds hold for one file, and for all that count in one directory.
func TestBounds(t *testing.T) {
	rules := func(n int) string { return strings.Repeat("a\n", n) }
	wide := func(n int) string { return strings.Repeat("x*y\n", n/3) }
	for _, c := range []struct {
		name, text string
		code       vfs.Code
	}{
		{"as many bytes as count", "a\n#" + strings.Repeat("x", ignore.MaxFile-3), ""},
		{"more bytes", "a\n#" + strings.Repeat("x", ignore.MaxFile-2), vfs.TooLarge},
		{"as many rules as count", rules(ignore.MaxRules), ""},
		{"more rules", rules(ignore.MaxRules + 1), vfs.Limit},
		{"as many patterns as count", "a\n" + wide(ignore.MaxWidth), ""},
		{"more patterns", "a\n" + wide(ignore.MaxWidth+3), vfs.Limit},
	} {
		d, err := load(t, &ignore.Dir{}, c.text)
		if vfs.CodeOf(err) != c.code || d.Ignored("a", false) != (c.code == "") {
			t.Errorf("%s: %v, and ignored: %v", c.name, err, d.Ignored("a", false))
		}
	}
	d := &ignore.Dir{}
	var err error
	depth := 0
	for ; err == nil && depth < 100; depth++ {
		d, err = load(t, d.Enter("d"), "a*b\n"+strings.Repeat("/d/*c\n", 1000))
	}
	if vfs.CodeOf(err) != vfs.Limit || depth < 3 {
		t.Errorf("%d directories, one below the other, with many rules: %v", depth, err)
	}
	if !d.Ignored("ab", false) {
		t.Error("what counted before does not count any more")
	}
}

// TestFiles has which files count, and in which order.
func TestFiles(t *testing.T) {
	_, root := check.Store(t, vfstest.Tree{
		".gitignore":             {Data: "*.log\nsecret/\nrepo/kept\n"},
		".ignore":                {Data: "!wanted.log\nvendor/\n"},
		"sub/.gitignore":         {Data: "wanted.log\n!other.log\n"},
		"repo/.git/info/exclude": {Data: "mine\n*.tmp\n"},
		"repo/.gitignore":        {Data: "!keep.tmp\n"},
		"linked/.gitignore":      {Link: "../.gitignore"},
		"tree/.git":              {Data: "gitdir: elsewhere\n"},
	})
	for _, c := range []struct{ dir, out, in string }{
		{"", "a.log secret/ vendor/ .git .git/", "wanted.log other secret"},
		{"sub", "a.log", "wanted.log other.log"},                            // .ignore comes first
		{"repo", "mine a.tmp vendor/ .git/", "a.log kept keep.tmp secret/"}, // a repository of its own
		{"linked", "a.log", ""},
		{"tree", "vendor/", "a.log"},
	} {
		failed := func(name string, err error) { t.Errorf("%s/%s: %v", c.dir, name, err) }
		state, _ := new(ignore.Dir).Load(t.Context(), root, nil, failed)
		if c.dir != "" {
			d, err := vfs.WalkDir(t.Context(), root, c.dir)
			check.OK(t, err)
			state, _ = state.Enter(c.dir).Load(t.Context(), d, nil, failed)
		}
		for want, all := range map[bool]string{true: c.out, false: c.in} {
			for name := range strings.FieldsSeq(all) {
				name, isDir := strings.CutSuffix(name, "/")
				if got := state.Ignored(name, isDir); got != want {
					t.Errorf("in %q %q is left out: %v", c.dir, name, got)
				}
			}
		}
	}
}
