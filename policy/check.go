package policy

import (
	"fmt"
	"slices"
	"strings"

	"capd/operator"
	"capd/vfs"
	"capd/vfs/membrane"
	"capd/vfs/pattern"
)

// MaxPatterns is how many patterns the rules of a host may have together, those of Except
// included.
const MaxPatterns = 1024

// Mistake is what is wrong with a rule. A rule that can never take effect is a mistake.
type Mistake struct {
	Source string // of the rule
	Text   string // what is wrong, and what to write instead
}

func (m Mistake) String() string {
	if m.Source == "" {
		return m.Text
	}
	return m.Source + ": " + m.Text
}

// Wrong returns mistakes as one error, invalid, with a line for each.
func Wrong(mistakes []Mistake) error {
	lines := make([]string, len(mistakes))
	for i, m := range mistakes {
		lines[i] = m.String()
	}
	return vfs.Errorf(vfs.Invalid, "%s", strings.Join(lines, "\n"))
}

// Check returns what is wrong with rules, given the roots that they may name.
func Check(r Rules, roots []operator.Root) []Mistake {
	c := checker{rules: r.Rules, roots: roots}
	switch r.Default {
	case "", operator.RuleAllow, operator.RuleDeny:
	default:
		c.found = append(c.found, Mistake{Text: fmt.Sprintf("the default cannot be %q; write allow or deny", r.Default)})
	}
	patterns := 0
	for i := range r.Rules {
		patterns += len(r.Rules[i].Patterns) + len(r.Rules[i].Except)
		before := len(c.found)
		if c.each(i); len(c.found) == before {
			c.useless(i)
		}
	}
	if patterns > MaxPatterns {
		c.found = append(c.found, Mistake{Text: fmt.Sprintf("the rules have %d patterns together; at most %d are matched", patterns, MaxPatterns)})
	}
	return c.found
}

type checker struct {
	rules []operator.Rule
	roots []operator.Root
	found []Mistake
}

func (c *checker) wrong(i int, format string, args ...any) {
	c.found = append(c.found, Mistake{Source: c.rules[i].Source, Text: fmt.Sprintf(format, args...)})
}

// each finds what is wrong with rule i alone.
func (c *checker) each(i int) {
	r := c.rules[i]
	if !slices.Contains([]operator.RuleEffect{operator.RuleDeny, operator.RuleAsk, operator.RuleAllow}, r.Effect) {
		c.wrong(i, "effect is %q; write deny, ask or allow", r.Effect)
	}
	if !isSubject(r.Subject) {
		c.wrong(i, "%q is no subject; write NAME, KIND:ID, KIND:* or *, where KIND is %s", r.Subject, strings.Join(operator.SubjectKinds(), ", "))
	}
	if r.Root != (operator.RuleRoot{}) && !slices.ContainsFunc(c.roots, func(root operator.Root) bool { return names(r.Root, root) }) {
		c.wrong(i, "no root is %s; declare it under roots, or leave root out", r.Root)
	}
	if _, err := operationsOf(r); err != nil {
		c.wrong(i, "operations: %s", message(err))
	}
	c.patterns(i)
	c.limits(i)
}

func (c *checker) patterns(i int) {
	r := c.rules[i]
	if len(r.Patterns) == 0 {
		c.wrong(i, "a rule needs patterns; write [\"**\"] for every path")
	}
	for _, text := range slices.Concat(r.Patterns, r.Except) {
		if err := pattern.Check(text); err != nil {
			c.wrong(i, "the pattern %q: %s", text, message(err))
		}
	}
}

// limits finds what is wrong with the bounds of rule i.
func (c *checker) limits(i int) {
	r := c.rules[i]
	if !slices.Contains([]string{"", operator.SymlinksReject, operator.SymlinksInRoot}, r.Symlinks) {
		c.wrong(i, "symlinks is %q; write reject or in-root", r.Symlinks)
	}
	if !slices.Contains([]string{"", operator.HardlinksReject, operator.HardlinksAllow}, r.Hardlinks) {
		c.wrong(i, "hardlinks is %q; write reject or allow", r.Hardlinks)
	}
	if r.Audit != "" && r.Audit != operator.AuditReads {
		c.wrong(i, "audit is %q; write reads, or leave it out", r.Audit)
	}
	if r.MaxFileBytes < 0 {
		c.wrong(i, "maxFileBytes is %d; write how many bytes a file may have", r.MaxFileBytes)
	}
	if r.Effect == operator.RuleDeny && bound(r) != (membrane.Bounds{}) {
		c.wrong(i, "a deny rule has no use for symlinks, hardlinks, maxFileBytes or audit; leave them out, or write effect: allow")
	}
	keeps, err := operationsOf(r)
	if err == nil && r.MaxFileBytes > 0 && keeps&membrane.Write == 0 {
		c.wrong(i, "maxFileBytes bounds what is written; add write to operations, or leave it out")
	}
	if err == nil && r.Audit != "" && keeps&(membrane.Read|membrane.List) == 0 {
		c.wrong(i, "audit: reads is about what is read; add read or list to operations, or leave it out")
	}
}

// useless finds that rule i, which is right by itself, can never take effect.
func (c *checker) useless(i int) {
	r := c.rules[i]
	if !slices.ContainsFunc(r.Patterns, func(p string) bool { return !spared(p, r.Except) }) {
		c.wrong(i, "except leaves nothing of patterns; remove the rule, or one of the exceptions")
		return
	}
	for j, other := range c.rules {
		switch {
		case i == j:
		case canonical(r) == canonical(other):
			if j < i {
				c.wrong(i, "this rule stands twice%s; remove one of the two", placed(other))
				return
			}
		case stricter(other.Effect, r) && c.contains(other, r):
			c.wrong(i, "this rule can never take effect: the rule with effect %s%s covers all of it; remove one of the two, or give that one an except", other.Effect, placed(other))
			return
		}
	}
}

func placed(r operator.Rule) string {
	if r.Source == "" {
		return ""
	}
	return " (" + r.Source + ")"
}

// stricter reports whether a rule with effect would leave nothing of r where both match.
func stricter(effect operator.RuleEffect, r operator.Rule) bool {
	return says[effect] > says[r.Effect] && (effect == operator.RuleDeny || bound(r) == membrane.Bounds{})
}

// contains reports whether outer matches whatever r matches. It sees only what is plain: the
// same patterns, or **.
func (c *checker) contains(outer, r operator.Rule) bool {
	have, err := operationsOf(outer)
	want, err2 := operationsOf(r)
	return err == nil && err2 == nil && want&^have == 0 && len(outer.Except) == 0 &&
		covers(outer.Subject, r.Subject) && c.within(outer.Root, r.Root) &&
		!slices.ContainsFunc(r.Patterns, func(p string) bool { return !matchedBy(p, outer, r) })
}

// within reports whether outer names every root that root names.
func (c *checker) within(outer, root operator.RuleRoot) bool {
	if outer == root || outer == (operator.RuleRoot{}) {
		return true
	}
	return outer.ID == "" && root.ID != "" &&
		slices.ContainsFunc(c.roots, func(r operator.Root) bool { return r.ID == root.ID && r.Kind == outer.Kind })
}

// matchedBy reports whether outer plainly matches what the pattern p of r does.
func matchedBy(p string, outer, r operator.Rule) bool {
	if slices.Contains(outer.Patterns, "**") {
		return true
	}
	anywhere := outer.Root != operator.RuleRoot{} || r.Root == operator.RuleRoot{} || strings.HasPrefix(p, "**/")
	return anywhere && slices.Contains(outer.Patterns, p)
}

// spared reports whether except plainly takes away all that p matches.
func spared(p string, except []string) bool {
	return slices.Contains(except, "**") || slices.Contains(except, p)
}

// message is the text of an error without its code.
func message(err error) string {
	_, text, ok := strings.Cut(err.Error(), ": ")
	if !ok {
		return err.Error()
	}
	return text
}
