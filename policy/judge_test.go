package policy_test

import (
	"slices"
	"strings"
	"testing"

	"capd/operator"
	"capd/policy"
	"capd/vfs/membrane"
)

// judgeAt returns the Judge of rules for subject at path.
func judgeAt(t testing.TB, b *policy.Book, subject operator.Subject, path string) membrane.Judge {
	t.Helper()
	j := b.For(subject).Judge()
	if j == nil {
		t.Fatalf("no rule applies to %s", subject)
	}
	if path != "" {
		for name := range strings.SplitSeq(path, "/") {
			j = j.Step(name)
		}
	}
	return j
}

func book(t testing.TB, def operator.RuleEffect, roots []operator.Root, rules ...operator.Rule) *policy.Book {
	t.Helper()
	b := &policy.Book{}
	if err := b.Set(policy.Rules{Rules: rules, Default: def}, roots); err != nil {
		t.Fatal(err)
	}
	return b
}

func rule(effect operator.RuleEffect, operations string, patterns ...string) operator.Rule {
	r := operator.Rule{Effect: effect, Patterns: patterns, Source: string(effect) + " " + strings.Join(patterns, " ")}
	if operations != "" {
		r.Operations = strings.Split(operations, ",")
	}
	return r
}

// TestDenyOverAskOverAllow tries every order of six rules.
func TestDenyOverAskOverAllow(t *testing.T) {
	rules := []operator.Rule{
		rule(operator.RuleAllow, "", "a/**"),
		rule(operator.RuleAsk, "write", "a/b/**"),
		rule(operator.RuleDeny, "write", "a/b/c/**"),
		rule(operator.RuleAllow, "write", "**/d"),
		rule(operator.RuleAsk, "", "**/e"),
		rule(operator.RuleDeny, "delete", "**/d"),
	}
	tried := 0
	var try func(n int)
	try = func(n int) {
		if n < len(rules) {
			for i := n; i < len(rules); i++ {
				rules[n], rules[i] = rules[i], rules[n]
				try(n + 1)
				rules[n], rules[i] = rules[i], rules[n]
			}
			return
		}
		tried++
		b := book(t, "", nil, rules...)
		for _, c := range []struct {
			path, source string
			need         membrane.Rights
			want         membrane.Says
		}{
			{"x", "", membrane.Write, membrane.Silent},
			{"a", "allow a/**", membrane.Write, membrane.Allows},
			{"a/b", "ask a/b/**", membrane.Write, membrane.Asks},
			{"a/b", "allow a/**", membrane.Read, membrane.Allows},
			{"a/b/c/x", "deny a/b/c/**", membrane.Write, membrane.Denies},
			{"a/b/c/x", "deny a/b/c/**", membrane.Read | membrane.Write, membrane.Denies},
			{"a/b/c/x", "allow a/**", membrane.Read, membrane.Allows},
			{"a/b/d", "ask a/b/**", membrane.Write, membrane.Asks},
			{"a/b/d", "deny **/d", membrane.Delete, membrane.Denies},
			{"d", "allow **/d", membrane.Write, membrane.Allows},
			{"d", "", membrane.Read, membrane.Silent},
			{"a/e", "ask **/e", membrane.Read, membrane.Asks},
			{"a/b/c/e", "deny a/b/c/**", membrane.Write, membrane.Denies},
		} {
			j := judgeAt(t, b, "agent-run:a", c.path)
			v := j.Judge(c.need)
			if v.Says != c.want || c.source != "" && j.Why(v).Source != c.source {
				t.Fatalf("%v of %s: %v by %v; want %v by %s", c.need, c.path, v.Says, j.Why(v), c.want, c.source)
			}
		}
	}
	try(0)
	if tried != 720 {
		t.Errorf("%d orders", tried)
	}
}

// TestExcept: an exception is matched as it is written, so that it never spares more than
// it says.
func TestExcept(t *testing.T) {
	r := rule(operator.RuleDeny, "write", "**/.github/**")
	r.Except = []string{"**/.github/ISSUE_TEMPLATE/**"}
	b := book(t, "", nil, r, rule(operator.RuleDeny, "write", "**/.github/ISSUE_TEMPLATE/secret"))
	for path, want := range map[string]membrane.Says{
		".github":                       membrane.Denies,
		".github/workflows/ci.yml":      membrane.Denies,
		".GITHUB/workflows":             membrane.Denies,
		".github/ISSUE_TEMPLATE":        membrane.Silent,
		"a/.github/ISSUE_TEMPLATE/b/c":  membrane.Silent,
		".github/issue_template/b":      membrane.Denies,
		".github/ISSUE_TEMPLATE/secret": membrane.Denies,
		"github/workflows":              membrane.Silent,
	} {
		if v := judgeAt(t, b, "core:c", path).Judge(membrane.Write); v.Says != want {
			t.Errorf("%s: %v, want %v", path, v.Says, want)
		}
	}
}

var roots = []operator.Root{{ID: "project", Kind: "workspace", Path: "project"}, {ID: "docs", Kind: "knowledge", Path: "project/docs"}, {ID: "tmp", Kind: "temp", Path: "tmp"}}

// TestWhere: a rule holds for its subjects and in its roots. A path belongs to the innermost
// root.
func TestWhere(t *testing.T) {
	inRoot := func(root operator.RuleRoot, subject string, patterns ...string) operator.Rule {
		r := rule(operator.RuleDeny, "write", patterns...)
		r.Root, r.Subject = root, subject
		return r
	}
	b := book(t, "", roots,
		inRoot(operator.RuleRoot{Kind: "workspace"}, "", "src/**", "**/x"),
		inRoot(operator.RuleRoot{ID: "docs"}, "agent-run:*", "**"),
		inRoot(operator.RuleRoot{}, "extension:lint", "tmp/**"),
		inRoot(operator.RuleRoot{}, "bob", "bob"))
	for _, c := range []struct {
		subject operator.Subject
		path    string
		want    membrane.Says
	}{
		{"person:p", "project/src/a", membrane.Denies},
		{"person:p", "scopes/project/anybody/project/src/a", membrane.Denies},
		{"person:p", "scopes/project/anybody/project-draft/src/a", membrane.Denies},
		{"person:p", "scopes/project/anybody/other/src/a", membrane.Silent},
		{"person:p", "scopes/other/anybody/project/src/a", membrane.Silent},
		{"person:p", "src/a", membrane.Silent},
		{"person:p", "project/x", membrane.Denies},
		{"person:p", "PROJECT/x", membrane.Silent},
		{"person:p", "project/docs/x", membrane.Silent},
		{"agent-run:a", "project/docs/x", membrane.Denies},
		{"agent-run:a", "project/docs", membrane.Denies},
		{"agent-run:a", "project", membrane.Silent},
		{"extension:lint", "tmp/a", membrane.Denies},
		{"extension:fmt", "tmp/a", membrane.Silent},
		{"agent-run:bob", "bob", membrane.Denies},
		{"agent-run:alice", "bob", membrane.Silent},
	} {
		if v := judgeAt(t, b, c.subject, c.path).Judge(membrane.Write); v.Says != c.want {
			t.Errorf("%s at %s: %v, want %v", c.subject, c.path, v.Says, c.want)
		}
	}
}

// TestPassage: a name is withheld where nothing may be done with it, and a directory above
// something that is allowed can be passed.
func TestPassage(t *testing.T) {
	spares := rule(operator.RuleDeny, "", "**")
	spares.Except = []string{"docs/api/**"}
	only := rule(operator.RuleAllow, "", "docs/api/**")
	only.Root = operator.RuleRoot{ID: "project"}
	all := rule(operator.RuleDeny, "", "**/.ssh/**")
	for _, c := range []struct {
		what  string
		book  *policy.Book
		paths map[string]membrane.Passage
	}{
		{"an exception", book(t, "", nil, spares, all), map[string]membrane.Passage{
			"": membrane.Through, "docs": membrane.Through, "src": membrane.Withheld, "docs/x": membrane.Withheld,
			"docs/api": membrane.Open, "docs/api/x": membrane.Open, "docs/api/.ssh": membrane.Withheld}},
		{"allowed alone", book(t, operator.RuleDeny, roots, only), map[string]membrane.Passage{
			"": membrane.Through, "project": membrane.Through, "project/docs": membrane.Withheld /* another root */, "tmp": membrane.Withheld, "x": membrane.Withheld}},
		{"allowed in one root", book(t, operator.RuleDeny, roots[:1], only), map[string]membrane.Passage{
			"project/docs": membrane.Through, "project/docs/api/x": membrane.Open, "project/src": membrane.Withheld}},
		{"a part", book(t, "", nil, rule(operator.RuleDeny, "read,list", "x")), map[string]membrane.Passage{"x": membrane.Open, "y": membrane.Open}},
		{"two rules", book(t, "", nil, rule(operator.RuleDeny, "read,list", "x"), rule(operator.RuleDeny, "metadata", "**/x")), map[string]membrane.Passage{"x": membrane.Withheld, "y/x": membrane.Open}},
	} {
		for path, want := range c.paths {
			if got := judgeAt(t, c.book, "core:c", path).Passage(); got != want {
				t.Errorf("%s: %q: %v, want %v", c.what, path, got, want)
			}
		}
	}
}

func TestBounds(t *testing.T) {
	r := rule(operator.RuleAllow, "read,write", "**")
	r.Symlinks, r.MaxFileBytes, r.Root = operator.SymlinksInRoot, 100, operator.RuleRoot{ID: "project"}
	r.Except = []string{"big/**"}
	s := rule(operator.RuleAsk, "delete", "project/**")
	s.Symlinks, s.Hardlinks = operator.SymlinksReject, operator.HardlinksReject
	b := book(t, "", roots[:1], r, s)
	for _, c := range []struct {
		path string
		need membrane.Rights
		want membrane.Bounds
	}{
		{"scopes/project/any/project/a", membrane.Write, membrane.Bounds{MaxFileBytes: 100, LinksInside: true, Inside: "scopes/project/any/project"}},
		{"project/a", membrane.Write, membrane.Bounds{MaxFileBytes: 100, LinksInside: true, Inside: "project"}},
		{"project/a", membrane.AllRights, membrane.Bounds{MaxFileBytes: 100, LinksInside: true, Inside: "project", NoLinks: true, NoHardLinks: true}},
		{"project/a", membrane.Metadata, membrane.Bounds{}},
		{"project/big/a", membrane.Write, membrane.Bounds{}},
		{"tmp/a", membrane.AllRights, membrane.Bounds{}},
	} {
		if got := judgeAt(t, b, "core:c", c.path).Bounds(c.need); got != c.want {
			t.Errorf("%s, %v: %+v, want %+v", c.path, c.need, got, c.want)
		}
	}
}

// TestSame: a directory may move as a whole where the same rules hold below both places.
func TestSame(t *testing.T) {
	r := rule(operator.RuleDeny, "write", "docs/**", "**/.env")
	r.Root = operator.RuleRoot{Kind: "workspace"}
	b := book(t, "", roots, r)
	for _, c := range []struct {
		from, to string
		want     bool
	}{
		{"project/a", "project/b/c", true}, {"project/a", "project/.env", false}, {"project/a", "tmp/a", false},
		{"x", "y", true}, {"x", "tmp/y", true}, {"project", "x", false}, {"project/x", "project/docs/a", false}, {"", "y", false},
	} {
		if got := judgeAt(t, b, "core:c", c.from).Same(judgeAt(t, b, "core:c", c.to)); got != c.want {
			t.Errorf("%q and %q: %v", c.from, c.to, got)
		}
	}
}

// many is 22 rules, as a host with several agents may have.
func many() (rules []operator.Rule) {
	for i, p := range []string{"**/.git/**", "**/.claude/**", "**/.cursor/**", "**/.vscode/**", "**/.mcp.json", "**/.envrc", "**/.github/**", "**/Makefile", "**/*.key", "**/*.pem", "**/.env"} {
		r := rule(operator.RuleAsk, "write,delete,move", p)
		r.Except = []string{"vendor/" + p}
		rules = append(rules, r)
		s := rule(operator.RuleDeny, "read", "secrets/"+strings.TrimPrefix(p, "**/"))
		s.Root = operator.RuleRoot{ID: "project"}
		if i%2 == 0 {
			s.Subject = "agent-run:*"
		}
		rules = append(rules, s)
	}
	return rules
}

// TestDecisionAllocatesNothing: nor does it at a path that many rules match.
func TestDecisionAllocatesNothing(t *testing.T) {
	rules := append(many(), slices.Repeat([]operator.Rule{rule(operator.RuleAllow, "", "**")}, 1)...)
	b := book(t, "", roots, rules...)
	p := b.For("agent-run:a")
	for _, path := range []string{"project/src/x.go", "project/.git/config", "project/secrets/.env", "vendor/.git/x"} {
		j := judgeAt(t, b, "agent-run:a", path)
		if n := testing.AllocsPerRun(100, func() {
			p.Judge()
			j.Judge(membrane.Write)
			j.Judge(membrane.Read | membrane.Move)
			j.Passage()
			j.Bounds(membrane.Write)
		}); n != 0 {
			t.Errorf("%s: %v allocations", path, n)
		}
	}
}

func BenchmarkDecision(b *testing.B) {
	rules := book(b, "", roots, many()...)
	for _, path := range []string{"project/src/x.go", "project/.git/config", "vendor/.git/config"} {
		b.Run(path, func(b *testing.B) {
			j := judgeAt(b, rules, "agent-run:a", path)
			b.ReportAllocs()
			for b.Loop() {
				j.Judge(membrane.Write)
			}
		})
	}
	b.Run("walk and decide", func(b *testing.B) {
		j := judgeAt(b, rules, "agent-run:a", "project/src/deep")
		b.ReportAllocs()
		for b.Loop() {
			j.Step("main.go").Judge(membrane.Write)
		}
	})
}
