package deny_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	"capd/backend/memory"
	"capd/vfs"
	"capd/vfs/deny"
	"capd/vfs/membrane"
	"capd/vfs/namespace"
	"capd/vfs/search"
)

func TestMatch(t *testing.T) {
	for _, c := range []struct {
		rules   []string
		yes, no string
	}{
		{deny.Secrets, ".ssh .ssh/id .ssh/a/b a/.ssh a/b/.ssh/c .env a/.env .env.local a/.env.x k.pem a/k.pem .key a/x.key credentials.json a/credentials.json .netrc a/.npmrc .aws .gnupg/x",
			"ssh .sshd env .envrc a.env credentials.json.txt a/pem x.pem/y .env/x netrc"},
		{deny.Secrets, ".ENV .Env a/.SSH/x K.PEM .eNv.LOCAL Credentials.JSON", ""},
		{deny.Secrets, "．env .ｅｎｖ .\u212aey k.\uff30em .ſsh a/.ⓔⓝⓥ .e\u200dnv .\ufeffenv .e\u00adnv .env\ufe0f .ssh\u200c/x", "．envx"},
		{[]string{"secret/*"}, "secret/x SECRET/X secret/a／b SECRET/a／b", "secret x/secret/y secret/x/y"},
		{[]string{"ÉCOLE", "straße"}, "ÉCOLE école E\u0301cole STRASSE straße", "ecole"},
		{[]string{"[A-C]x"}, "Ax Cx ax", "Dx"},
		{[]string{"**/ab*ba"}, "abba x/abxba", "aba x/abab"},
		// Paths that only the raw form matches: folding a pattern makes some sets
		// smaller, and one character may become two.
		{[]string{"[A-c]x"}, "Zx _x", "dx"},
		{[]string{"a?"}, "aß a\ufb00", "abc"},
		{deny.Triggers, ".git a/.git .git/hooks/pre-commit .git/config .git/HEAD .git/commondir a/.git/modules/m/config .GIT/HOOKS/x .mcp.json .envrc a/.vscode/tasks.json", ".gitignore .github/x a.git"},
	} {
		r := deny.Must(c.rules...)
		for _, path := range strings.Fields(c.yes) {
			if !r.Match(path) {
				t.Errorf("%v does not cover %+q", c.rules, path)
			}
		}
		for _, path := range strings.Fields(c.no) {
			if r.Match(path) {
				t.Errorf("%v covers %+q", c.rules, path)
			}
		}
	}
	if _, err := deny.Compile("a", "["); vfs.CodeOf(err) != vfs.Invalid {
		t.Errorf("a bad pattern: %v", err)
	}
}

func TestSame(t *testing.T) {
	for _, c := range []struct {
		pattern, from, to string
		want              bool
	}{
		{"**/.env", "a", "b", true},
		{"**/.env", "a/b/c", "d", true},
		{"**/.ssh/**", "a", "b", true},
		{"**/.ssh/**", "a", ".ssh/b", false},
		{"**/.ssh/**", ".ssh/b", "a", false},
		{"**/.ssh/**", ".ssh/b", ".ssh/c", true},
		{"a/secret", "a", "b", false},
		{"a/secret", "b", "a", false},
		{"a/secret", "b", "c", true},
		{"a/secret", "b/a", "c", true},
		{"a/secret", "A", "b", false},
		{"a/**/x", "a", "b", false},
		{"a/**/x", "a/b", "a/c/d", true},
		{"*/secret", "a", "b", true},
		{"*/secret", "a", "a/b", false},
		{"{a,b}/secret", "a", "c", false},
		{"**/.git/hooks/**", "x/.git", "x/git", false},
		{"a?/secret", "aß", "b", false},
		{"[A-c]/secret", "Z", "z", false},
		{"a/secret", "C", "b", true},
		{"a?/secret", "b\u00df", "c", true},
	} {
		r := deny.Must(c.pattern)
		if got := at(r, c.from).Same(at(r, c.to)); got != c.want {
			t.Errorf("%s: from %s to %s: %v", c.pattern, c.from, c.to, got)
		}
	}
}

// at is a matcher of one path.
func at(r *deny.Rules, path string) membrane.Matcher {
	m := r.Matcher()
	for name := range strings.SplitSeq(path, "/") {
		m = m.Step(name)
	}
	return m
}

func tree(t *testing.T, paths ...string) vfs.Dir {
	t.Helper()
	root := memory.New(memory.Limits{}).Root()
	for _, path := range paths {
		d := root
		names := strings.Split(path, "/")
		for _, name := range names[:len(names)-1] {
			next, err := d.Mkdir(t.Context(), name)
			if vfs.CodeOf(err) == vfs.Exists {
				next, err = vfs.WalkDir(t.Context(), d, name)
			}
			if err != nil {
				t.Fatal(err)
			}
			d = next
		}
		var err error
		if name := names[len(names)-1]; name != "" {
			_, err = d.Replace(t.Context(), name, strings.NewReader(path), vfs.If{})
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	return root
}

// TestMove: a directory moves whole only if the rules below both places are the same,
// even if they match nothing in it.
func TestMove(t *testing.T) {
	for _, c := range []struct {
		pattern, from, to string
		want              vfs.Code
	}{
		{"a/secret", "a", "b", vfs.Denied},
		{"a/secret", "c", "b", ""},
		{"c/secret", "c", "d", vfs.Denied},
		{"b/secret", "a", "b", vfs.Denied},
		{"**/.env", "a", "b", ""},
		{"**/.ssh/**", "a", ".ssh", vfs.Denied},
		{"b/*/x", "f", "b", ""}, // a file
		{"b/f", "f", "g", ""},
		{"b", "f", "b", vfs.Denied},
		{"f", "f", "b", vfs.Denied},
		{"**/g", "f", "G", vfs.Denied},
	} {
		for _, paths := range [][]string{{"a/x", "c/x", "f"}, {"a/x", "a/secret", "c/x", "c/secret", "c/.env", "a/.env", "f"}} {
			raw := tree(t, paths...)
			d := membrane.Guarded(raw, nil, deny.Must(c.pattern).Guard())
			err := d.Rename(t.Context(), c.from, d, c.to, vfs.If{}, vfs.If{})
			if vfs.CodeOf(err) != c.want {
				t.Errorf("%s: %s to %s with %v: %v", c.pattern, c.from, c.to, paths, err)
			}
			_, there := raw.Lookup(t.Context(), c.from)
			if (there == nil) != (c.want != "") {
				t.Errorf("%s: %s to %s: the source: %v", c.pattern, c.from, c.to, there)
			}
		}
	}
}

// TestToldByRemoval: a directory that holds only something withheld can be neither
// removed nor moved to another tree. The refusal tells that much, and the host learns
// which directory it is. If the directory also holds something visible, the refusal tells
// nothing.
func TestToldByRemoval(t *testing.T) {
	names := namespace.New()
	for path, below := range map[string]vfs.Dir{"from": tree(t, "secret/in/.env", "both/.env", "both/x", "plain/x"), "to": tree(t, "x")} {
		if err := names.Mount(path, below, namespace.Options{Guards: []membrane.Guard{deny.Must("**/.env").Guard()}}); err != nil {
			t.Fatal(err)
		}
	}
	top := membrane.Guarded(names.Root(), nil)
	defer top.Close()
	open := func(path string) vfs.Dir {
		d, err := vfs.WalkDir(t.Context(), top, path)
		if err != nil {
			t.Fatal(err)
		}
		return d
	}
	from, secret, to := open("from"), open("from/secret"), open("to")
	for _, c := range []struct {
		what string
		err  error
		code vfs.Code
		told string // of which directory
	}{
		{"removing what seems empty", secret.Remove(t.Context(), "in", vfs.If{}), vfs.Denied, "secret/in"},
		{"moving it", secret.Rename(t.Context(), "in", to, "in", vfs.If{}, vfs.If{}), vfs.Denied, "secret/in"},
		{"moving what it is in", from.Rename(t.Context(), "secret", to, "new", vfs.If{}, vfs.If{}), vfs.Denied, "secret/in"},
		{"removing what holds something visible", from.Remove(t.Context(), "both", vfs.If{}), vfs.NotEmpty, ""},
		{"moving what holds nothing withheld", from.Rename(t.Context(), "plain", to, "plain", vfs.If{}, vfs.If{}), "", ""},
	} {
		told, ok := errors.AsType[*membrane.Disclosure](c.err)
		if vfs.CodeOf(c.err) != c.code || ok != (c.told != "") || ok && told.Path != c.told {
			t.Errorf("%s: %v, and told of %+v; want %q and %q", c.what, c.err, told, c.code, c.told)
		}
		if c.err != nil && strings.Contains(c.err.Error(), ".env") {
			t.Errorf("%s: %v names what is withheld", c.what, c.err)
		}
	}
}

// swapping replaces a file by a directory after it was looked at.
type swapping struct {
	vfs.Dir
	swap func()
}

func (s swapping) Lookup(ctx context.Context, name string) (vfs.Node, error) {
	n, err := s.Dir.Lookup(ctx, name)
	s.swap()
	return n, err
}

// TestSwappedForADirectory: what was looked at as a file moves only as that file.
func TestSwappedForADirectory(t *testing.T) {
	raw := tree(t, "a", "c/secret")
	d := membrane.Guarded(swapping{raw, func() {
		raw.Rename(t.Context(), "a", raw, "away", vfs.If{}, vfs.If{})
		raw.Rename(t.Context(), "c", raw, "a", vfs.If{}, vfs.If{})
	}}, nil, deny.Must("a/secret").Guard())
	if err := d.Rename(t.Context(), "a", d, "b", vfs.If{}, vfs.If{}); err == nil {
		t.Error("a directory moved")
	}
	if _, err := vfs.Walk(t.Context(), raw, "b/secret"); vfs.CodeOf(err) != vfs.NotFound {
		t.Errorf("b/secret: %v", err)
	}
}

func TestAsk(t *testing.T) {
	raw := tree(t, ".git/hooks/x", "f", "d/x")
	d := membrane.Guarded(raw, nil, deny.Must(deny.Triggers...).Ask("it"))
	ctx := t.Context()
	hooks, err := vfs.WalkDir(ctx, d, ".git/hooks")
	if err != nil {
		t.Fatal(err)
	}
	file, err := vfs.WalkFile(ctx, d, ".git/hooks/x")
	if err != nil {
		t.Fatal(err)
	}
	p := make([]byte, 20)
	if n, _ := file.ReadAt(ctx, p, 0); string(p[:n]) != ".git/hooks/x" {
		t.Errorf("read %q", p[:n])
	}
	if _, err := vfs.VersionOf(ctx, file); err != nil {
		t.Error(err)
	}
	for range hooks.List(ctx) {
	}
	second := func(_ any, err error) error { return err }
	for what, err := range map[string]error{
		"write":        second(file.WriteAt(ctx, []byte("x"), 0, vfs.If{})),
		"append":       second(vfs.Append(ctx, file, []byte("x"), vfs.If{})),
		"truncate":     file.Truncate(ctx, 0, vfs.If{}),
		"replaceFile":  second(file.Replace(ctx, strings.NewReader("x"), vfs.If{})),
		"replace":      second(hooks.Replace(ctx, "x", strings.NewReader("x"), vfs.If{})),
		"put":          second(vfs.Put(ctx, d, ".git/hooks/new", strings.NewReader("x"), vfs.If{})),
		"create":       second(hooks.Create(ctx, "new")),
		"mkdir":        second(d.Mkdir(ctx, ".vscode")),
		"remove":       hooks.Remove(ctx, "x", vfs.If{}),
		"rename it":    hooks.Rename(ctx, "x", d, "y", vfs.If{}, vfs.If{}),
		"rename to it": d.Rename(ctx, "f", hooks, "y", vfs.If{}, vfs.If{}),
		"rename to":    d.Rename(ctx, "f", d, ".envrc", vfs.If{}, vfs.If{}),
		"git's own":    d.Rename(ctx, ".git", d, "git", vfs.If{}, vfs.If{}),
		"a git file":   second(d.Create(ctx, ".GIT")),
	} {
		if code := vfs.CodeOf(err); code != vfs.AskDenied && !(what == "git's own" && code == vfs.Denied) {
			t.Errorf("%s: %v", what, err)
		}
	}
}

// Matching name by name agrees with the patterns.
func TestNames(t *testing.T) {
	segments := []string{".ssh", ".SSH", ".env", ".env.", ".env.x", "a.pem", ".pem", "pem", "x.Key", "credentials.json", "a", "é", "\u212a.key"}
	for _, patterns := range [][]string{deny.Secrets, deny.Triggers, {"**/a/**", "**/a"}, {"a/**", "**/*"}, {"**/{a,b}", "**/x?"}, {"**"}, {"**/a*b/**"}, {"**/A/**", "a/*/**"}} {
		r := deny.Must(patterns...)
		var raw, folded []*search.Pattern
		for _, p := range patterns {
			c, err := search.Compile(p)
			if err != nil {
				t.Fatal(err)
			}
			l, err := search.Compile(strings.ToLower(p))
			if err != nil {
				t.Fatal(err)
			}
			raw, folded = append(raw, c), append(folded, l)
		}
		for _, a := range segments {
			for _, b := range segments {
				for _, path := range []string{a, a + "/" + b, "d/" + a + "/" + b, a + "/d/" + b} {
					want := slices.ContainsFunc(raw, func(p *search.Pattern) bool { return p.Match(path) }) ||
						slices.ContainsFunc(folded, func(p *search.Pattern) bool { return p.Match(strings.ToLower(path)) })
					if got := r.Match(path); got != want {
						t.Errorf("%q cover %q: %v, want %v", patterns, path, got, want)
					}
				}
			}
		}
	}
}

func BenchmarkMatch(b *testing.B) {
	r := deny.Must(deny.Secrets...)
	for b.Loop() {
		if r.Match("internal/server/Handlers/request_test.go") {
			b.Fatal("it is covered")
		}
	}
}
