package policy_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"capd/backend/physical"
	"capd/operator"
	"capd/policy"
	"capd/vfs"
	"capd/vfs/faultfs"
	"capd/vfs/ignore"
	"capd/vfs/membrane"
	"capd/vfs/namespace"
	"capd/vfs/vfstest"
	"capd/vfs/vfstest/check"
)

// ruled returns a tree behind a membrane with the rules of a Book, and the tree itself.
func ruled(t testing.TB, b *policy.Book, tree vfstest.Tree) (d, raw vfs.Dir) {
	t.Helper()
	d, _, raw = check.Guarded(t, tree, membrane.Guard{Policy: b.For("agent-run:a")})
	return d, raw
}

func set(t testing.TB, b *policy.Book, rules ...operator.Rule) {
	t.Helper()
	check.OK(t, b.Set(policy.Rules{Rules: rules}, nil))
}

// TestSuite: rules that match nothing change nothing, and rules that are exchanged all the
// time neither.
func TestSuite(t *testing.T) {
	vfstest.Run(t, vfstest.Store{New: func(t testing.TB, tree vfstest.Tree) vfs.Dir {
		b := book(t, "", nil, rule(operator.RuleDeny, "", "**/.nothing/**"), rule(operator.RuleAsk, "write", "never/*/matches"))
		_, raw := check.Store(t, tree)
		return membrane.Guarded(raw, nil, membrane.Guard{Policy: b.For("agent-run:a")})
	}})
}

// TestNewRulesReachOpenNodes: what was opened under one set of rules follows the next.
func TestNewRulesReachOpenNodes(t *testing.T) {
	b := &policy.Book{}
	d, _ := ruled(t, b, check.Sample)
	h := check.Hold(t, d)
	defer h.Close()
	check.TryAll(t, "without rules", h, "", "")
	set(t, b, rule(operator.RuleDeny, "", "**"))
	check.TryAll(t, "everything is denied", h, vfs.Denied, vfs.Denied)
	set(t, b, rule(operator.RuleDeny, "", "elsewhere/**"))
	check.TryAll(t, "something else is denied", h, "", "")
	set(t, b, rule(operator.RuleDeny, "write,delete,move", "**"))
	check.TryAll(t, "changes are denied", h, "", vfs.Denied)
	set(t, b, rule(operator.RuleAsk, "write,delete,move", "**"))
	check.TryAll(t, "changes are asked about", h, "", vfs.AskDenied)
	set(t, b)
	check.TryAll(t, "without rules again", h, "", "")
}

// TestListingFollows: a listing that is under way leaves out what a new rule denies, and
// ends when it denies the listing.
func TestListingFollows(t *testing.T) {
	b := &policy.Book{}
	d, _ := ruled(t, b, vfstest.Tree{"a": {}, "b": {}, "c": {}, "d": {}})
	var seen []string
	var last error
	for e, err := range d.List(t.Context()) {
		if last = err; err != nil {
			break
		}
		switch seen = append(seen, e.Name); e.Name {
		case "a":
			set(t, b, rule(operator.RuleDeny, "read", "b"))
		case "c":
			set(t, b, rule(operator.RuleDeny, "list", "**"))
		}
	}
	check.Is(t, "the listing", last, vfs.Denied)
	if !slices.Equal(seen, []string{"a", "c"}) {
		t.Errorf("it listed %q", seen)
	}
}

// TestListingsSkip: listings, searches and the question whether a directory is empty leave
// out what is denied or asked about for reading.
func TestListingsSkip(t *testing.T) {
	tree := vfstest.Tree{"a/open": {}, "a/denied": {}, "a/asked": {}, "a/fixed": {}, "b/denied": {}, "hidden/x": {}, "hidden/open": {}}
	b := book(t, "", nil, rule(operator.RuleDeny, "read", "**/denied"), rule(operator.RuleAsk, "read", "**/asked"),
		rule(operator.RuleDeny, "write", "**/fixed"), rule(operator.RuleDeny, "", "hidden/**"))
	d, raw := ruled(t, b, tree)
	ctx := t.Context()
	for path, want := range map[string]string{"": "a b", "a": "fixed open", "b": ""} {
		at := d
		if path != "" {
			at = check.DirAt(t, d, path)
		}
		names, err := check.Names(ctx, at)
		if check.OK(t, err); strings.Join(names, " ") != want {
			t.Errorf("%q holds %q, want %q", path, names, want)
		}
	}
	for pattern, want := range map[string]string{"**": "a a/fixed a/open b", "a/denied": "", "*/asked": "", "hidden/x": "", "hidden/**": "", "{a,b,hidden}/{open,denied}": "a/open"} {
		if got := strings.Join(check.Hits(t, d, pattern, ""), " "); got != want {
			t.Errorf("%s finds %q, want %q", pattern, got, want)
		}
	}
	any, err := vfs.Any(ctx, check.DirAt(t, d, "b"), func(vfs.Entry) bool { return true })
	if check.OK(t, err); any {
		t.Error("a directory of denied names holds something")
	}
	check.Is(t, "removing it", d.Remove(ctx, "b", vfs.If{}), vfs.Denied)
	for path, want := range map[string]vfs.Code{"hidden": vfs.Denied, "hidden/x": vfs.Denied, "hidden/none": vfs.Denied, "a/denied": "", "a/none": vfs.NotFound} {
		_, err := vfs.Walk(ctx, d, path)
		check.Is(t, "looking up "+path, err, want)
	}
	if names, _ := check.Names(ctx, check.DirAt(t, raw, "a")); len(names) != 4 {
		t.Errorf("the store has %q", names)
	}
}

// TestUnasked: a search asks nobody about a file that it would read. Its ignore files do not
// count then.
func TestUnasked(t *testing.T) {
	b := book(t, "", nil, rule(operator.RuleAsk, "read", "**/.gitignore"))
	asked := 0
	d, _, _ := check.Guarded(t, vfstest.Tree{".gitignore": {Data: "out\n"}}, membrane.Guard{
		Policy:  b.For("agent-run:a"),
		AskRead: func(context.Context, membrane.AskedRead) error { asked++; return nil },
	})
	f, err := vfs.WalkFile(t.Context(), d, ".gitignore")
	check.OK(t, err)
	_, err = f.ReadAt(vfs.Unasked(t.Context()), make([]byte, 1), 0)
	check.Is(t, "reading without asking", err, vfs.AskDenied)
	state, _ := new(ignore.Dir).Load(t.Context(), d, nil, func(name string, err error) { t.Errorf("%s: %v", name, err) })
	if asked != 0 || state.Ignored("out", false) {
		t.Errorf("%d were asked, and the rules count: %v", asked, state.Ignored("out", false))
	}
	if _, err = f.ReadAt(t.Context(), make([]byte, 1), 0); err != nil || asked == 0 {
		t.Errorf("reading: %v, and %d were asked", err, asked)
	}
}

// TestEveryRight: each operation is refused by a rule about each right that it needs, and by
// no other.
func TestEveryRight(t *testing.T) {
	for _, c := range []struct {
		right   string
		refuses string
	}{
		{"read", "read,version,open,read a content,rename"},
		{"list", "list"},
		{"metadata", "stat a directory,stat a file,stat a link,set attributes"},
		{"write", "write,append,truncate,set attributes,replace a file,replace,put through a link,create,mkdir,rename"},
		{"delete", "remove,rmdir"},
		{"move", "rename"},
		{"archive,watch", ""},
	} {
		for effect, code := range map[operator.RuleEffect]vfs.Code{operator.RuleDeny: vfs.Denied, operator.RuleAsk: vfs.AskDenied} {
			for _, o := range check.Ops {
				b := &policy.Book{}
				tree := vfstest.Tree{"fresh": {}, "moved": {}}
				for path, node := range check.Sample {
					tree[path] = node
				}
				switch o.Name {
				case "create", "mkdir", "rmdir":
					delete(tree, "fresh")
				case "rename":
					delete(tree, "moved")
				}
				d, raw := ruled(t, b, tree)
				if o.Name == "rmdir" {
					_, err := raw.Mkdir(t.Context(), "fresh")
					check.OK(t, err)
				}
				h := check.Hold(t, d)
				set(t, b, rule(effect, c.right, "**"))
				want := vfs.Code("")
				if slices.Contains(strings.Split(c.refuses, ","), o.Name) {
					want = code
				}
				check.Is(t, string(effect)+" "+c.right+": "+o.Name, o.Do(t.Context(), h), want)
				h.Close()
			}
		}
	}
}

// TestDenyDuringACall: a deny that is set while a change is staged stops it, and one that is
// set while it waits for a human's yes does too.
func TestDenyDuringACall(t *testing.T) {
	for _, c := range []struct {
		what  string
		rules []operator.Rule
		want  vfs.Code
	}{
		{"nothing that concerns it", []operator.Rule{rule(operator.RuleDeny, "write", "g")}, ""},
		{"a deny", []operator.Rule{rule(operator.RuleDeny, "write", "f")}, vfs.Denied},
		{"an ask", []operator.Rule{rule(operator.RuleAsk, "write", "f")}, vfs.AskDenied},
		{"a deny of another right", []operator.Rule{rule(operator.RuleDeny, "delete", "f")}, ""},
	} {
		b := &policy.Book{}
		_, raw := check.Store(t, vfstest.Tree{"f": {Data: "old"}})
		plan := &faultfs.Plan{}
		d := membrane.Guarded(faultfs.New(raw, plan), nil, membrane.Guard{Policy: b.For("agent-run:a")})
		_, err := d.Replace(t.Context(), "f", during(func() { set(t, b, c.rules...) }), vfs.If{})
		check.Is(t, "setting "+c.what+" during a put", err, c.want)
		if got := check.Read(t, raw, "f"); (got == "old") != (c.want != "") {
			t.Errorf("%s: the file holds %q", c.what, got)
		}
	}
}

// during returns a reader that calls f before it ends.
func during(f func()) *calling { return &calling{f: f} }

type calling struct {
	f    func()
	done bool
}

func (c *calling) Read(p []byte) (int, error) {
	if c.done {
		return strings.NewReader("").Read(p)
	}
	c.done = true
	c.f()
	return copy(p, "new"), nil
}

// TestReadDuringACall: a read that has begun is withheld if a rule denies it meanwhile.
func TestReadDuringACall(t *testing.T) {
	b := &policy.Book{}
	_, raw := check.Store(t, vfstest.Tree{"f": {Data: "secret"}})
	d := membrane.Guarded(raw, nil, membrane.Guard{Policy: b.For("agent-run:a")}, check.Around(func(ctx context.Context, op membrane.Op, do check.Do) (vfs.Effect, error) {
		e, err := do(ctx)
		if op.Kind == membrane.OpRead {
			set(t, b, rule(operator.RuleDeny, "read", "f"))
		}
		return e, err
	}))
	f := check.FileAt(t, d, "f")
	n, err := f.ReadAt(t.Context(), make([]byte, 6), 0)
	if check.Is(t, "a read", err, vfs.Denied); n != 0 {
		t.Errorf("it answers %d bytes", n)
	}
}

// TestBatch: a change that was allowed when a batch began is made, whatever rules come
// meanwhile.
func TestBatch(t *testing.T) {
	b := book(t, "", nil, rule(operator.RuleDeny, "write", "denied"), rule(operator.RuleAsk, "write", "asked"))
	d, raw := ruled(t, b, vfstest.Tree{"f": {Data: "old"}, "g": {Data: "old"}})
	for path, want := range map[string]vfs.Code{"denied": vfs.Denied, "asked": vfs.AskDenied} {
		_, _, err := membrane.Hold(t.Context(), d, []membrane.Op{{Kind: membrane.OpReplace, Path: "f"}, {Kind: membrane.OpReplace, Path: path}})
		check.Is(t, "a batch with "+path, err, want)
	}
	ctx, release, err := membrane.Hold(t.Context(), d, []membrane.Op{{Kind: membrane.OpReplace, Path: "f"}})
	check.OK(t, err)
	set(t, b, rule(operator.RuleDeny, "write", "**"))
	check.OK(t, check.Put(ctx, d, "f", "new"))
	check.Is(t, "a change beside the batch", check.Put(ctx, d, "g", "new"), vfs.Denied)
	release()
	check.Is(t, "after it", check.Put(ctx, d, "f", "newer"), vfs.Denied)
	if got := check.Read(t, raw, "f"); got != "new" {
		t.Errorf("the file holds %q", got)
	}
}

// TestMoves: a directory moves whole only where the same rules hold, also from mount to
// mount.
func TestMoves(t *testing.T) {
	ctx := t.Context()
	names := namespace.New()
	for path, tree := range map[string]vfstest.Tree{"one": {"d/f": {}, "docs/f": {}, "g": {}}, "two": {"x": {}}} {
		_, raw := check.Store(t, tree)
		check.OK(t, names.Mount(path, raw, namespace.Options{}))
	}
	b := book(t, "", nil, rule(operator.RuleDeny, "read", "one/docs/**"), rule(operator.RuleDeny, "write", "**/fixed"), rule(operator.RuleAsk, "move", "one/g"))
	d := membrane.Guarded(names.Root(), nil, membrane.Guard{Policy: b.For("agent-run:a")})
	one, two := check.DirAt(t, d, "one"), check.DirAt(t, d, "two")
	for _, c := range []struct {
		what     string
		from, to vfs.Dir
		name, as string
		want     vfs.Code
	}{
		{"within a mount", one, one, "d", "e", ""},
		{"what is denied for reading", one, one, "docs", "e2", vfs.Denied},
		{"into what is denied for reading", one, one, "e", "docs2", ""},
		{"onto what is denied for writing", one, one, "docs2", "fixed", vfs.Denied},
		{"what is asked about", one, one, "g", "h", vfs.AskDenied},
		{"what is asked about to another mount", one, two, "g", "h", vfs.AskDenied},
		{"a file to another mount", two, one, "x", "x", ""},
		{"onto what is denied in another mount", one, two, "x", "fixed", vfs.Denied},
	} {
		check.Is(t, "moving "+c.what, c.from.Rename(ctx, c.name, c.to, c.as, vfs.If{}, vfs.If{}), c.want)
	}
}

// TestThrough: a directory above something that is allowed can be passed, and tells nothing
// else.
func TestThrough(t *testing.T) {
	b := &policy.Book{}
	check.OK(t, b.Set(policy.Rules{Default: operator.RuleDeny, Rules: []operator.Rule{rule(operator.RuleAllow, "", "a/b/c/**")}}, nil))
	d, _ := ruled(t, b, vfstest.Tree{"a/b/c/f": {Data: "open"}, "a/f": {}, "a/b/f": {}, "x": {}, "a/l": {Link: "b/c"}})
	ctx := t.Context()
	if got := check.Read(t, d, "a/b/c/f"); got != "open" {
		t.Errorf("it holds %q", got)
	}
	for path, want := range map[string]vfs.Code{"a": "", "a/b": "", "a/b/c": "", "a/f": vfs.Denied, "a/none": vfs.Denied, "a/b/f": vfs.Denied, "x": vfs.Denied, "none": vfs.Denied, "a/l": vfs.Denied, "a/b/c/none": vfs.NotFound} {
		_, err := vfs.WalkLink(ctx, d, path)
		check.Is(t, path, err, want)
	}
	_, err := check.Names(ctx, check.DirAt(t, d, "a"))
	check.Is(t, "a listing on the way", err, vfs.Denied)
	check.OK(t, check.Put(ctx, d, "a/b/c/new", "x"))
	check.Is(t, "a change on the way", check.Put(ctx, d, "a/b/new", "x"), vfs.Denied)
}

// TestBoundsOfFiles tries every bound on files of the host.
func TestBoundsOfFiles(t *testing.T) {
	host := t.TempDir()
	for _, name := range []string{"root/f", "root/two", "out"} {
		check.OK(t, os.MkdirAll(filepath.Dir(filepath.Join(host, name)), 0o755))
		check.OK(t, os.WriteFile(filepath.Join(host, name), []byte("12345"), 0o644))
	}
	check.OK(t, os.Link(filepath.Join(host, "root/two"), filepath.Join(host, "other")))
	check.OK(t, os.Mkdir(filepath.Join(host, "root/deep"), 0o755))
	for name, text := range map[string]string{"in": "f", "outward": "../out", "root/deep/up": "../f", "root/deep/far": "../../out", "root/deep/round": "../deep/../../out"} {
		check.OK(t, os.Symlink(text, filepath.Join(host, strings.Replace(name, "in", "root/in", 1))))
	}
	check.OK(t, os.Symlink("../out", filepath.Join(host, "root/outward")))
	s, err := physical.OpenAmbient(host, physical.Options{})
	check.OK(t, err)
	t.Cleanup(func() { s.Close() })
	b := &policy.Book{}
	d := membrane.Guarded(s.Root(), nil, membrane.Guard{Policy: b.For("agent-run:a")})
	bound := func(change func(*operator.Rule)) {
		t.Helper()
		r := rule(operator.RuleAllow, "", "**")
		r.Root = operator.RuleRoot{ID: "root"}
		change(&r)
		check.OK(t, b.Set(policy.Rules{Rules: []operator.Rule{r}}, []operator.Root{{ID: "root", Kind: "workspace", Path: "root"}}))
	}
	ctx := t.Context()
	read := func(path string) error {
		f, err := vfs.WalkFile(ctx, d, path)
		if err == nil {
			defer f.Close()
			_, err = f.ReadAt(ctx, make([]byte, 1), 0)
		}
		return err
	}
	for path, codes := range map[string][3]vfs.Code{ // without a bound, in-root, reject
		"root/in": {"", "", vfs.Denied}, "root/outward": {"", vfs.Denied, vfs.Denied}, "root/deep/up": {"", "", vfs.Denied},
		"root/deep/far": {"", vfs.Denied, vfs.Denied}, "root/deep/round": {"", vfs.Denied, vfs.Denied}, "root/f": {"", "", ""},
	} {
		for i, links := range []string{"", operator.SymlinksInRoot, operator.SymlinksReject} {
			bound(func(r *operator.Rule) { r.Symlinks = links })
			check.Is(t, path+" with symlinks: "+links, read(path), codes[i])
		}
	}
	bound(func(r *operator.Rule) { r.Hardlinks = operator.HardlinksReject })
	two := check.FileAt(t, d, "root/two")
	_, opened := vfs.Open(ctx, two)
	_, wrote := two.WriteAt(ctx, []byte("x"), 0, vfs.If{})
	for what, err := range map[string]error{"read": read("root/two"), "open": opened, "write": wrote, "put": check.Put(ctx, d, "root/two", "x"),
		"remove": check.DirAt(t, d, "root").Remove(ctx, "two", vfs.If{}), "move": check.DirAt(t, d, "root").Rename(ctx, "two", d, "here", vfs.If{}, vfs.If{})} {
		check.Is(t, what+" of a hard link", err, vfs.Denied)
	}
	check.OK(t, read("root/f"))
	check.OK(t, read("other"))
	bound(func(r *operator.Rule) { r.MaxFileBytes = 8 })
	f := check.FileAt(t, d, "root/f")
	for what, do := range map[string]func(n int) error{
		"put": func(n int) error { return check.Put(ctx, d, "root/new", strings.Repeat("x", n)) },
		"replace": func(n int) error {
			_, err := f.Replace(ctx, strings.NewReader(strings.Repeat("x", n)), vfs.If{})
			return err
		},
		"write":    func(n int) error { _, err := f.WriteAt(ctx, []byte("x"), int64(n-1), vfs.If{}); return err },
		"truncate": func(n int) error { return f.Truncate(ctx, int64(n), vfs.If{}) },
		"append": func(n int) error {
			if err := f.Truncate(ctx, 4, vfs.If{}); err != nil {
				return err
			}
			_, err := vfs.Append(ctx, f, make([]byte, n-4), vfs.If{})
			return err
		},
		"move": func(n int) error {
			check.OK(t, os.WriteFile(filepath.Join(host, "big"), make([]byte, n), 0o644))
			return d.Rename(ctx, "big", check.DirAt(t, d, "root"), "big", vfs.If{}, vfs.If{})
		},
	} {
		check.Is(t, what+" of 9 bytes", do(9), vfs.TooLarge)
		check.Is(t, what+" of 8 bytes", do(8), "")
	}
}

// TestErrors: a guest hears which right a rule refuses. The rule itself is for the host.
func TestErrors(t *testing.T) {
	b := book(t, "", nil, operator.Rule{Effect: operator.RuleDeny, Operations: []string{"write"}, Patterns: []string{"private-*"}, Source: "capd.yaml:31:5"})
	d, _ := ruled(t, b, vfstest.Tree{})
	err := check.Put(t.Context(), d, "private-x", "")
	if got := err.Error(); got != "denied: a rule of the host does not allow write here" {
		t.Errorf("the guest hears %q", got)
	}
	r, ok := cause(err)
	if !ok || r.Source != "capd.yaml:31:5" || r.Says != membrane.Denies {
		t.Errorf("the host is told of %+v", r)
	}
}

func cause(err error) (r *membrane.Ruled, ok bool) { ok = errors.As(err, &r); return r, ok }
