package ignore_test

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"capd/backend/physical"
	"capd/tests/scratch"
	"capd/vfs"
	"capd/vfs/ignore"
)

func TestMain(m *testing.M) { os.Exit(scratch.Run(m)) }

// names are those of the random trees. Patterns are made of the same characters.
var names = []string{"a", "b", "ab", "aab", "ba", "A", "c.o", "a.c.o", ".a", "a b", "a ", "[a]", "é", "-", "]", "^", "!a", "#a", `a\b`, "foo", "foobar", "abc"}

var pieces = []string{
	"a", "b", "c", "ab", "A", ".o", ".", "foo", "bar", "é", " ", "-", "]", "^", "#", "!",
	"*", "*", "*", "?", "**", "***", "/", "/", "/", "/**/", "**/", "/**", "/*/", "*/",
	"[ab]", "[!a]", "[^ab]", "[a-c]", "[c-a]", "[]a]", "[!]a]", "[a-]", "[-a]", "[a/]", `[\]a]`, `[a\-c]`, "[[:alpha:]]", "[[:punct:]]", "[^[:upper:]]", "[[:foo:]]", "[[:a]", "[", "[a",
	`\a`, `\*`, `\[`, `\ `, `\\`, `\`, `\/`, `\!`, `\#`, `**\/`,
}

// randomRule returns a line of an ignore file.
func randomRule(rng *rand.Rand) string {
	var b strings.Builder
	if rng.IntN(4) == 0 {
		b.WriteByte('!')
	}
	if rng.IntN(4) == 0 {
		b.WriteByte('/')
	}
	if rng.IntN(3) == 0 { // close to a path
		for i := range 1 + rng.IntN(3) {
			if i > 0 {
				b.WriteByte('/')
			}
			b.WriteString([]string{names[rng.IntN(len(names))], pieces[rng.IntN(len(pieces))]}[rng.IntN(2)])
		}
	} else {
		for range 1 + rng.IntN(5) {
			b.WriteString(pieces[rng.IntN(len(pieces))])
		}
	}
	b.WriteString([]string{"", "", "", "", "/", "/", " ", "  ", `\ `, "//"}[rng.IntN(10)])
	return b.String()
}

// randomFile returns an ignore file with n rules.
func randomFile(rng *rand.Rand, n int) string {
	var b strings.Builder
	if rng.IntN(10) == 0 {
		b.WriteString("\ufeff")
	}
	for range n {
		if rng.IntN(12) == 0 {
			b.WriteString([]string{"# a\n", "\n", "   \n", "\r\n", "a\x00b\n", "\t\n"}[rng.IntN(6)])
		}
		b.WriteString(randomRule(rng))
		b.WriteString([]string{"\n", "\n", "\n", "\r\n"}[rng.IntN(4)])
	}
	return strings.TrimSuffix(b.String(), []string{"", "\n"}[rng.IntN(2)])
}

// compared counts.
type compared struct{ rules, paths int }

// plant makes a random tree with ignore files in dir.
func (c *compared) plant(t *testing.T, rng *rand.Rand, dir string) {
	t.Helper()
	dirs := []string{dir}
	for range 6 + rng.IntN(14) {
		at := filepath.Join(dirs[rng.IntN(len(dirs))], names[rng.IntN(len(names))])
		if rng.IntN(2) == 0 {
			if os.Mkdir(at, 0o755) == nil {
				dirs = append(dirs, at)
			}
		} else if _, err := os.Lstat(at); err != nil {
			write(t, at, "")
		}
	}
	for i, d := range dirs {
		if i == 0 || rng.IntN(4) == 0 {
			n := 1 + rng.IntN(6)
			c.rules += n
			write(t, filepath.Join(d, ".gitignore"), randomFile(rng, n))
		}
	}
}

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

// repository makes an empty repository.
func repository(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	git(t, dir, "", "init", "-q")
	return dir
}

// git runs git, without what the machine or its user set.
func git(t *testing.T, dir, stdin string, args ...string) string {
	t.Helper()
	path, err := exec.LookPath("git")
	if err != nil {
		t.Skip("git is not installed")
	}
	cmd := exec.Command(path, args...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_SYSTEM=/dev/null", "XDG_CONFIG_HOME=/nonexistent", "HOME=/nonexistent", "GIT_DIR="+filepath.Join(dir, ".git"), "GIT_WORK_TREE="+dir)
	cmd.Stdin = strings.NewReader(stdin)
	var said bytes.Buffer
	cmd.Stderr = &said
	out, err := cmd.Output()
	if ee, ok := err.(*exec.ExitError); err != nil && (!ok || ee.ExitCode() != 1) { // 1: nothing is ignored
		t.Fatalf("git %v: %v: %s", args, err, said.String())
	}
	return string(out)
}

// verdicts walks a tree and returns every path in it, and whether it is left out.
func verdicts(t *testing.T, dir string) map[string]bool {
	t.Helper()
	store, err := physical.OpenAmbient(dir, physical.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	root := store.ReadOnlyRoot()
	defer root.Close()
	all := map[string]bool{}
	walk(t, root, "", &ignore.Dir{}, false, all)
	return all
}

func walk(t *testing.T, d vfs.Dir, at string, state *ignore.Dir, ignored bool, all map[string]bool) {
	t.Helper()
	if !ignored {
		state, _ = state.Load(t.Context(), d, nil, func(name string, err error) { t.Errorf("%s/%s: %v", at, name, err) })
	}
	for e, err := range d.List(t.Context()) {
		if err != nil {
			t.Fatal(err)
		}
		if e.Name == ".git" {
			continue
		}
		isDir := e.Kind == vfs.DirKind
		out := ignored || state.Ignored(e.Name, isDir)
		all[path.Join(at, e.Name)] = out
		if !isDir {
			continue
		}
		n, err := vfs.LookupAs[vfs.Dir](t.Context(), d, e.Name, vfs.NotDir)
		if err != nil {
			t.Fatal(err)
		}
		walk(t, n, path.Join(at, e.Name), state.Enter(e.Name), out, all)
		n.Close()
	}
}

// compare compares with git in every path of a repository.
func (c *compared) compare(t *testing.T, dir string) {
	t.Helper()
	all := verdicts(t, dir)
	var asked strings.Builder
	for p := range all {
		asked.WriteString(p + "\x00")
	}
	c.paths += len(all)
	want := map[string]bool{}
	for p := range strings.SplitSeq(strings.TrimSuffix(git(t, dir, asked.String(), "check-ignore", "--no-index", "-z", "--stdin"), "\x00"), "\x00") {
		want[p] = p != ""
	}
	for p, got := range all {
		if got == want[p] {
			continue
		}
		t.Errorf("%q: left out: %v, and git says %v\n%s", p, got, want[p], rulesAbove(dir, p))
		if t.Failed() && len(all) > 1000 {
			return
		}
	}
}

// rulesAbove returns the ignore files above a path.
func rulesAbove(dir, p string) string {
	var b strings.Builder
	for p != "." {
		p = path.Dir(p)
		if text, err := os.ReadFile(filepath.Join(dir, p, ".gitignore")); err == nil {
			fmt.Fprintf(&b, "%s: %q\n", p, text)
		}
	}
	return b.String()
}

// TestGit compares with git, on random rules and trees.
func TestGit(t *testing.T) {
	trees, roots := 250, 5
	if os.Getenv("CAPD_CI") != "" {
		trees, roots = 5000, 100
	}
	seed := rand.Uint64()
	rng := rand.New(rand.NewPCG(seed, 1))
	var c compared
	dir := repository(t)
	for i := range trees {
		c.plant(t, rng, filepath.Join(dir, fmt.Sprintf("tree%d", i)))
	}
	c.compare(t, dir)
	for range roots { // with rules at the root, and in info/exclude
		dir := repository(t)
		c.plant(t, rng, dir)
		n := rng.IntN(4)
		c.rules += n
		write(t, filepath.Join(dir, ".git/info/exclude"), randomFile(rng, n))
		c.compare(t, dir)
	}
	if t.Failed() {
		t.Logf("the seed is %d", seed)
		return
	}
	fmt.Printf("gitignore: %d random rules, %d paths, 0 differ from git\n", c.rules, c.paths)
}

// TestKnown has rules that other matchers get wrong, each with the paths that it leaves
// out of those that end in "?" or do not.
func TestKnown(t *testing.T) {
	for _, c := range []struct{ rules, paths, out string }{
		{"[!a]", "a b c", "b c"},
		{"[^a]b", "ab bb", "bb"},
		{"\ufeffa\nb", "a b", "a b"},
		{"foo/**bar", "foo/bar foo/xbar foo/x/bar", "foo/bar foo/xbar"},
		{"foo**/bar", "foobar foox/bar foo/x/bar foox/y/bar fo/bar", "foobar foox/bar foo/x/bar foox/y/bar"},
		{"dir/*\n!dir/sub/", "dir/a dir/sub/b", "dir/a"},
		{"/*\n!/foo\n/foo/*\n!/foo/bar", "a foo/a foo/bar/b", "a foo/a"},
		{"a \nb\\ \nc\\\\ ", `a b c\`, `a c\`},
		{"a/**/b", "a/b a/x/b a/x/y/b xa/b", "a/b a/x/b a/x/y/b"},
		{"**/a/b", "a/b x/a/b xa/b", "a/b x/a/b"},
		{"a/**", "a/b a/c/d b/a", "a/b a/c a/c/d"},
		{"**/a", "a b/a ab", "a b/a"},
		{"a/**/**/***/b*", "a/b a/x/bc a/x/y/z/b a/xb", "a/b a/x/bc a/x/y/z/b"},
		{"**/**/a/*/**/**/b", "a/b a/x/b c/a/x/y/b", "a/x/b c/a/x/y/b"},
		{"/**/a*", "ab x/ac", "ab x/ac"},
		{"A", "a A", "A"},
		{"a\\", `a a\`, ""},
		{"[a", "a [a", ""},
		{"[[:nope:]]", "a", ""},
		{"\\!a\n\\#b", "!a #b a b", "!a #b"},
		{"#a", "#a", ""},
		{"a\r\nb\r", "a b", "a b"},
		{"a/", "a b/a/c", "b/a b/a/c"},
		{"/a", "a b/a", "a"},
		{"a/b", "a/b c/a/b", "a/b"},
		{"*.o\n!k.o", "a.o k.o d/a.o d/k.o .o", "a.o d/a.o .o"},
		{"d\n!d/k", "d/k", "d d/k"},
		{"a//", "a/b", ""},
		{"!", "a", ""},
		{"/", "a", ""},
		{"*\n!.gitignore", "a .b", "a .b"},
		{"d/.*", "d/.a/b d/a", "d/.a d/.a/b"},
		{"a\x00b", "a ab", "a"},
	} {
		dir := repository(t)
		write(t, filepath.Join(dir, ".gitignore"), c.rules)
		for p := range strings.FieldsSeq(c.paths) {
			write(t, filepath.Join(dir, p), "")
		}
		var out []string
		for p, left := range verdicts(t, dir) {
			if left && p != ".gitignore" {
				out = append(out, p)
			}
		}
		want := strings.Fields(c.out)
		slices.Sort(out)
		slices.Sort(want)
		if !slices.Equal(out, want) {
			t.Errorf("%q leaves out %q, want %q", c.rules, out, want)
		}
		new(compared).compare(t, dir)
	}
}
