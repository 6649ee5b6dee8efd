package cap_test

import (
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"

	"capd/backend/memory"
	schema "capd/capnp"
	"capd/client"
	"capd/host"
	"capd/meter"
	"capd/operator"
	"capd/policy"
	"capd/tests/scene"
	"capd/vat"
	"capd/vfs"
	"capd/vfs/deny"
	"capd/vfs/membrane"
	"capd/vfs/namespace"
	"capd/vfs/vfstest"
	"capd/vfs/vfstest/check"
)

// explained is a tree of three mounts: one with guards and links, one that can only be read, and one that is full.
type explained struct {
	names *namespace.Namespace
	open  vfs.Dir // the store of the first
}

var explainTree = vfstest.Tree{
	"a": {Data: "a"}, "d/b": {Data: "b"}, "d/c/e": {Data: "e"}, ".env": {Data: "secret"}, "empty": {Dir: true},
	".git/config": {Data: "c"}, "keys/.env": {Data: "secret"}, "to": {Link: "d/b"}, "out": {Link: "../q/f"},
}

func newExplained(t *testing.T) *explained {
	x := &explained{namespace.New(), scene.InMemory(t, explainTree)}
	full := meter.New("q", "the mount", meter.Limits{meter.StoredNodes: 1})
	q := memory.New(memory.Limits{}).Root()
	ok(t, x.names.Mount("p", x.open, namespace.Options{Guards: []membrane.Guard{deny.Must(deny.Secrets...).Guard(), deny.Must(deny.Triggers...).Ask("p")}}))
	ok(t, x.names.Mount("ro", scene.InMemory(t, shareTree), namespace.Options{ReadOnly: true}))
	ok(t, x.names.Mount("q", q, namespace.Options{Guards: []membrane.Guard{{Meter: full}}}))
	_, err := vfs.Put(t.Context(), x.names.Root(), "q/f", strings.NewReader("f"), vfs.If{})
	ok(t, err)
	return x
}

// dump returns the names and contents of a tree.
func dump(t *testing.T, d vfs.Dir) string {
	var b strings.Builder
	for e, err := range d.List(t.Context()) {
		ok(t, err)
		n, err := d.Lookup(t.Context(), e.Name)
		ok(t, err)
		switch n := n.(type) {
		case vfs.Dir:
			b.WriteString(e.Name + "/(" + dump(t, n) + ") ")
		case vfs.File:
			b.WriteString(e.Name + "=" + check.Read(t, d, e.Name) + " ")
		default:
			b.WriteString(e.Name + " ")
		}
		n.Close()
	}
	return b.String()
}

// TestExplainAgrees: whatever is granted and whatever the rules are, an explanation says what the call then answers, and nothing
// was changed by asking.
func TestExplainAgrees(t *testing.T) {
	rounds := 40
	if os.Getenv("CAPD_CI") != "" {
		rounds = 300
	}
	r := rand.New(rand.NewPCG(1, 2))
	seen := map[vfs.Code]int{}
	for range rounds {
		x, book := newExplained(t), &policy.Book{}
		s := scene.Serve(t, x.names.Root(), scene.Options{Policy: book, Desk: true, Options: host.Options{Logf: t.Logf}}) // it logs disclosures
		ok(t, book.Set(randomRules(r), nil))
		paths := []string{"p", "p/a", "p/d", "p/d/b", "p/d/c/e", "p/.env", "p/.git/config", "p/none", "p/new", "p/d/new", "p/to", "p/out", "p/a/b", "p/keys", "p/empty", "ro/c", "ro/new", "q/f", "q/new", "new", "", "none/x", "p/../q"}
		at := pick(r, []string{"", "", "p", "p/d"})
		g, secret, err := s.Authority.GrantOn(t.Context(), "agent", at, operator.Terms{Rights: randomRights(r)})
		ok(t, err)
		loc := s.At
		loc.Secret = secret
		c := scene.Dial(t, loc)
		d := c.Dir(t.Context())
		for range 12 {
			path, to := pick(r, paths), pick(r, paths)
			if at != "" {
				path, to = strings.TrimPrefix(path, at+"/"), strings.TrimPrefix(to, at+"/")
			}
			right := pick(r, []client.Rights{client.Read, client.Write, client.Delete, client.List, client.Metadata, client.Move})
			switch {
			case right != client.Move:
				to = ""
			case to == "":
				continue
			}
			before := dump(t, x.open)
			got, err := d.Explain(t.Context(), right, path, to)
			if err != nil && right != client.Move {
				t.Fatalf("explain %v %q: %v", right, path, err)
			}
			if after := dump(t, x.open); after != before {
				t.Fatalf("explaining %v %q %q changed the tree from\n%s to\n%s", right, path, to, before, after)
			}
			if text := strings.Join(got.Reasons, "\n"); strings.Contains(text, "**") || strings.Contains(text, "test") {
				t.Errorf("a guest is told %q", text)
			}
			err = attempt(t, d, right, path, to)
			seen[vfs.CodeOf(err)]++
			if (err == nil) != got.Allowed || err != nil && !strings.Contains(got.Reasons[len(got.Reasons)-1], ": "+string(vfs.CodeOf(err))) {
				t.Errorf("%v of %q to %q through %s with %v: explained as %v, %q, and answered %v", right, path, to, g.Path, g.Rights, got.Allowed, got.Reasons, err)
			}
		}
		c.Close()
	}
	t.Log(seen)
	for _, code := range []vfs.Code{"", vfs.Denied, vfs.ReadOnly, vfs.NotFound, vfs.AskDenied, vfs.Quota, vfs.NotEmpty, vfs.Outside} {
		if seen[code] == 0 {
			t.Errorf("nothing was answered %q", code)
		}
	}
}

// What is not one right is named in the answer, and so is one about which nothing is decided.
func TestExplainOneRight(t *testing.T) {
	_, _, d := guest(t, explainTree)
	for right, want := range map[client.Rights]string{
		client.Read | client.Write: `"read,write" is not one right`, 0: `"none" is not one right`, membrane.AllRights: `"all" is not one right`,
		client.Watch: `the right "watch" alone`, client.Archive: `the right "archive" alone`,
	} {
		_, err := d.Explain(t.Context(), right, "a", "")
		if is(t, right.String(), err, vfs.Invalid); !strings.Contains(fmt.Sprint(err), want) {
			t.Errorf("%s: %v", right, err)
		}
	}
	err := call(t, d.Cap(), schema.Dir_explain, func(p schema.Dir_explain_Params, _ *vat.Caps) error {
		p.SetRight(99) // of a later version
		return p.SetPath("a")
	}, nil)
	if is(t, "an unknown right", err, vfs.Invalid); !strings.Contains(fmt.Sprint(err), "no right that is known here") {
		t.Errorf("an unknown right: %v", err)
	}
}

// attempt does what was asked about.
func attempt(t *testing.T, d *client.Dir, right client.Rights, path, to string) error {
	ctx := t.Context()
	switch right {
	case client.Read:
		if path == "" {
			return vfs.IsDir
		}
		_, _, err := d.OpenFile(path).ReadBytes(ctx)
		return err
	case client.Write:
		_, err := d.Put(ctx, path, strings.NewReader(""), vfs.If{})
		return err
	case client.Delete:
		return d.RemovePath(ctx, path, vfs.If{})
	case client.List:
		if path != "" {
			d = d.SubDir(path)
		}
		for _, err := range d.List(ctx) {
			return err
		}
		return nil
	case client.Metadata:
		if path == "" {
			_, err := d.Stat(ctx)
			return err
		}
		n, err := d.Walk(ctx, path, true)
		if err == nil {
			_, err = n.Stat(ctx)
		}
		return err
	}
	return d.Move(ctx, path, d, to, vfs.If{}, vfs.If{})
}

func pick[T any](r *rand.Rand, all []T) T { return all[r.IntN(len(all))] }

// randomRights returns a set with all rights, or all but one or two.
func randomRights(r *rand.Rand) membrane.Rights {
	rights := membrane.AllRights
	for range r.IntN(3) {
		rights &^= 1 << r.IntN(8)
	}
	return rights
}

func randomRules(r *rand.Rand) (rules policy.Rules) {
	patterns := []string{"p/d/**", "p/a", "**/new", "p/**", "q/**", "p/empty"}
	words := []string{"read", "write", "delete", "list", "move", "metadata"}
	for range r.IntN(4) {
		rule := operator.Rule{Effect: pick(r, []operator.RuleEffect{operator.RuleDeny, operator.RuleAsk, operator.RuleAllow}), Patterns: []string{pick(r, patterns)}, Source: "test"}
		rule.Operations = []string{pick(r, words), pick(r, words)}
		slices.Sort(rule.Operations)
		rule.Operations = slices.Compact(rule.Operations)
		if next := append(slices.Clone(rules.Rules), rule); len(policy.Check(policy.Rules{Rules: next}, nil)) == 0 {
			rules.Rules = next
		}
	}
	return rules
}
