package policy_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"capd/operator"
	"capd/policy"
	"capd/vfs"
)

// parse returns the rules of a JSON text, each with the source r and its number.
func parse(t *testing.T, text string) policy.Rules {
	t.Helper()
	var r policy.Rules
	if err := json.Unmarshal([]byte(text), &r.Rules); err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	for i := range r.Rules {
		r.Rules[i].Source = fmt.Sprint("r", i+1)
	}
	return r
}

// TestNeverMatches: a rule that can never take effect is refused, and so is one that cannot
// be read.
func TestNeverMatches(t *testing.T) {
	for _, c := range []struct{ rules, want string }{
		{`[{"effect":"deny","patterns":["**"]}]`, ``},
		{`[{"patterns":["**"]}]`, `r1: effect is ""; write deny, ask or allow`},
		{`[{"effect":"deny"}]`, `r1: a rule needs patterns; write ["**"] for every path`},
		{`[{"effect":"deny","patterns":["/a"]}]`, `r1: the pattern "/a": a pattern is not empty and starts at this Dir, never with "/"`},
		{`[{"effect":"deny","patterns":["a/../b"]}]`, `r1: the pattern "a/../b": a pattern holds an empty name, "." or ".."`},
		{`[{"effect":"deny","patterns":["[a"]}]`, `r1: the pattern "[a": a pattern holds an open "[" or ends in a backslash`},
		{`[{"effect":"deny","patterns":["` + strings.Repeat("a", 5000) + `"]}]`, `r1: the pattern`},
		{`[{"effect":"deny","patterns":["a"],"except":[""]}]`, `r1: the pattern ""`},
		{`[{"effect":"deny","operations":["fly"],"patterns":["**"]}]`, `r1: operations: "fly" is not a right; the rights are read, write, delete, list, move, archive, watch, metadata, link`},
		{`[{"effect":"deny","root":"attic","patterns":["**"]}]`, `r1: no root is attic; declare it under roots, or leave root out`},
		{`[{"effect":"deny","root":{"id":"attic"},"patterns":["**"]}]`, `r1: no root is {id: attic}; declare it under roots, or leave root out`},
		{`[{"effect":"deny","root":"workspace","patterns":["**"]},{"effect":"deny","root":{"id":"tmp"},"patterns":["**"]}]`, ``},
		{`[{"effect":"deny","subject":"robot:x","patterns":["**"]}]`, `r1: "robot:x" is no subject; write NAME, KIND:ID, KIND:* or *, where KIND is core, agent-run, extension, automation, person`},
		{`[{"effect":"deny","subject":"a b","patterns":["**"]}]`, `r1: "a b" is no subject`},
		{`[{"effect":"deny","subject":"agent-run:conv:run","patterns":["**"]},{"effect":"deny","subject":"bob","patterns":["**"]},{"effect":"deny","subject":"person:*","patterns":["**"]},{"effect":"deny","subject":"core:*","patterns":["**"]}]`, ``},
		{`[{"effect":"deny","patterns":["a","b"],"except":["b","a"]}]`, `r1: except leaves nothing of patterns`},
		{`[{"effect":"deny","patterns":["a","b"],"except":["b"]}]`, ``},
		{`[{"effect":"deny","patterns":["a"],"except":["**"]}]`, `r1: except leaves nothing of patterns`},
		{`[{"effect":"deny","patterns":["a"]},{"effect":"deny","subject":"*","patterns":["a","a"],"operations":["read","write","delete","list","move","archive","watch","metadata","link"]}]`, `r2: this rule stands twice (r1); remove one of the two`},
		{`[{"effect":"ask","patterns":["**/x"]},{"effect":"deny","patterns":["**"]}]`, `r1: this rule can never take effect: the rule with effect deny (r2) covers all of it; remove one of the two, or give that one an except`},
		{`[{"effect":"allow","patterns":["x"],"operations":["read"],"subject":"bob"},{"effect":"deny","patterns":["y","x"],"operations":["read","list"],"subject":"agent-run:*"}]`, `r1: this rule can never take effect: the rule with effect deny (r2)`},
		{`[{"effect":"allow","patterns":["x"]},{"effect":"ask","patterns":["x"]}]`, `r1: this rule can never take effect: the rule with effect ask (r2)`},
		{`[{"effect":"allow","patterns":["x"],"maxFileBytes":10},{"effect":"ask","patterns":["x"]}]`, ``},
		{`[{"effect":"allow","patterns":["x"],"maxFileBytes":10},{"effect":"deny","patterns":["x"]}]`, `r1: this rule can never take effect`},
		{`[{"effect":"ask","patterns":["x","y"]},{"effect":"deny","patterns":["x"]}]`, ``},
		{`[{"effect":"ask","patterns":["x"]},{"effect":"deny","patterns":["x"],"operations":["write"]}]`, ``},
		{`[{"effect":"ask","patterns":["x"]},{"effect":"deny","patterns":["x"],"subject":"bob"}]`, ``},
		{`[{"effect":"ask","patterns":["x"]},{"effect":"deny","patterns":["x"],"root":"workspace"}]`, ``},
		{`[{"effect":"ask","patterns":["x"],"root":{"id":"project"}},{"effect":"deny","patterns":["x"],"root":"workspace"}]`, `r1: this rule can never take effect`},
		{`[{"effect":"ask","patterns":["x"],"root":{"id":"project"}},{"effect":"deny","patterns":["x"]}]`, ``},
		{`[{"effect":"ask","patterns":["**/x"],"root":{"id":"project"}},{"effect":"deny","patterns":["**/x"]}]`, `r1: this rule can never take effect`},
		{`[{"effect":"ask","patterns":["x"]},{"effect":"deny","patterns":["x"],"except":["y"]}]`, ``},
		{`[{"effect":"deny","patterns":["x"],"symlinks":"reject"}]`, `r1: a deny rule has no use for symlinks, hardlinks, maxFileBytes or audit`},
		{`[{"effect":"allow","patterns":["x"],"audit":"writes"}]`, `r1: audit is "writes"; write reads, or leave it out`},
		{`[{"effect":"allow","patterns":["x"],"operations":["write"],"audit":"reads"}]`, `r1: audit: reads is about what is read; add read or list to operations`},
		{`[{"effect":"allow","patterns":["x"],"symlinks":"maybe"}]`, `r1: symlinks is "maybe"; write reject or in-root`},
		{`[{"effect":"allow","patterns":["x"],"hardlinks":"in-root"}]`, `r1: hardlinks is "in-root"; write reject or allow`},
		{`[{"effect":"allow","patterns":["x"],"maxFileBytes":-1}]`, `r1: maxFileBytes is -1`},
		{`[{"effect":"allow","patterns":["x"],"maxFileBytes":10,"operations":["read"]}]`, `r1: maxFileBytes bounds what is written; add write to operations, or leave it out`},
	} {
		r := parse(t, c.rules)
		mistakes := policy.Check(r, roots)
		if (len(mistakes) > 0) != (c.want != "") || len(mistakes) > 0 && !strings.HasPrefix(mistakes[0].String(), c.want) {
			t.Errorf("%.200s\n%v\nwant %q", c.rules, mistakes, c.want)
		}
		b := &policy.Book{}
		if err := b.Set(r, roots); (vfs.CodeOf(err) == vfs.Invalid) != (c.want != "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%.200s: %v", c.rules, err)
		} else if err != nil && b.For("core:c").Judge() != nil {
			t.Errorf("%.200s: they hold, although they were refused", c.rules)
		}
	}
	if m := policy.Check(policy.Rules{Default: "ask"}, nil); len(m) != 1 {
		t.Errorf("default: ask: %v", m)
	}
	many := policy.Rules{Rules: []operator.Rule{{Effect: operator.RuleDeny, Patterns: slices.Repeat([]string{"x"}, policy.MaxPatterns+1)}}}
	if m := policy.Check(many, nil); len(m) != 1 {
		t.Errorf("too many patterns: %v", m)
	}
}

// TestHash: rules that mean the same have one hash, and others have another.
func TestHash(t *testing.T) {
	same := []string{
		`[{"effect":"deny","patterns":["a","b"],"operations":["write","read"]},{"effect":"ask","subject":"agent-run:bob","patterns":["c"]}]`,
		`[{"effect":"ask","subject":"bob","patterns":["c"],"operations":["read","write","delete","list","move","archive","watch","metadata","link"],"hardlinks":"allow"},{"effect":"deny","subject":"*","patterns":["b","a"],"operations":["read","write"]}]`,
	}
	one := parse(t, same[0]).Hash()
	if two := parse(t, same[1]).Hash(); one != two || len(one) != 64 {
		t.Errorf("%s and %s", one, two)
	}
	seen := map[string]string{one: same[0]}
	for _, text := range []string{`[]`, `[{"effect":"deny","patterns":["a"]}]`, `[{"effect":"ask","patterns":["a"]}]`, `[{"effect":"deny","patterns":["a"],"except":["b"]}]`,
		`[{"effect":"deny","patterns":["a"],"root":"workspace"}]`, `[{"effect":"deny","patterns":["a"],"root":{"id":"workspace"}}]`, `[{"effect":"ask","patterns":["a"],"maxFileBytes":1}]`} {
		h := parse(t, text).Hash()
		if other, twice := seen[h]; twice {
			t.Errorf("%s and %s have one hash", text, other)
		}
		seen[h] = text
	}
	if denied := (policy.Rules{Default: operator.RuleDeny}); seen[denied.Hash()] != "" || (policy.Rules{}).Hash() != (policy.Rules{Default: operator.RuleAllow}).Hash() {
		t.Error("the default makes the wrong difference")
	}
}
