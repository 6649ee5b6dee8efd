package policy

import (
	"math/bits"

	"capd/vfs"
	"capd/vfs/membrane"
	"capd/vfs/pattern"
)

// at is where the rules of a sheet stand at one path. It implements [membrane.Judge].
type at struct {
	sheet      *sheet
	everywhere standing // the rules without a root
	rooted     standing // the rules of the innermost root
	area       *area    // on the way to a root; nil where none is below
	inside     string   // path of the innermost root
	scope      string   // path of the directory with an area that is for all names, if it is in one
}

// standing is where the patterns of a group stand. The zero standing matches nothing.
type standing struct {
	group *group
	at    *pattern.At
}

func (g *group) start() standing {
	if g == nil {
		return standing{}
	}
	return standing{g, g.set.Start()}
}

func (s standing) step(name string) standing {
	if s.at != nil {
		s.at = s.at.Step(name)
	}
	return s
}

// enter sets what changes where a comes to an area.
func (a *at) enter(to *area) {
	a.area = to
	if to != nil && to.root {
		a.rooted, a.inside = to.ruling.start(), vfs.Join(a.scope, to.path)
	}
}

// Step implements [membrane.Judge].
func (a *at) Step(name string) membrane.Judge {
	next := *a
	next.everywhere, next.rooted = a.everywhere.step(name), a.rooted.step(name)
	if in := a.area; in != nil {
		to := in.below[name]
		if to == nil && in.each != nil {
			to, next.scope = in.each, vfs.Join(in.path, name)
		}
		next.enter(to)
	}
	if next == *a {
		return a
	}
	kept := next
	return &kept
}

// Same implements [membrane.Judge].
func (a *at) Same(to membrane.Judge) bool {
	b, ok := to.(*at)
	return ok && (a == b || a.sheet == b.sheet && a.area == b.area && a.everywhere.same(b.everywhere) && a.rooted.same(b.rooted))
}

func (s standing) same(t standing) bool {
	return s.group == t.group && (s.at == t.at || s.at.Same(t.at))
}

// Judge implements [membrane.Judge].
func (a *at) Judge(need membrane.Rights) membrane.Verdict {
	v, w := a.everywhere.verdict(need), a.rooted.verdict(need)
	if w.Says > v.Says {
		v = w
	}
	if v.Says == membrane.Silent {
		v = membrane.Verdict{Says: a.sheet.fallback, Rule: -1}
	}
	return v
}

// verdict returns what the strictest rule says of an operation that needs all of need.
func (s standing) verdict(need membrane.Rights) membrane.Verdict {
	if s.at == nil || !s.at.Any() {
		return membrane.Verdict{}
	}
	for says := membrane.Denies; says > membrane.Silent; says-- {
		if c := s.first(&s.group.about[says], need); c != nil {
			return membrane.Verdict{Says: says, Rule: c.rule}
		}
	}
	return membrane.Verdict{}
}

// first returns the first rule that matches, among those of about for any of need.
func (s standing) first(about *[rights][]uint64, need membrane.Rights) *compiled {
	for word, hit := range s.at.Hits() {
		var among uint64
		for n := uint16(need); n != 0; n &= n - 1 {
			among |= about[bits.TrailingZeros16(n)][word]
		}
		for hit &= among; hit != 0; hit &= hit - 1 {
			c := &s.group.rules[s.group.of[word*64+bits.TrailingZeros64(hit)]]
			if !s.excepts(c) {
				return c
			}
		}
	}
	return nil
}

// excepts reports whether c does not apply to the path, although a pattern matches.
func (s standing) excepts(c *compiled) bool {
	for i := c.from; i < c.from+c.except; i++ {
		if s.at.Matches(i) {
			return true
		}
	}
	return false
}

// naming are the rights each of which lets a name be looked up.
var naming = [...]membrane.Rights{membrane.Read, membrane.List, membrane.Metadata}

// Passage implements [membrane.Judge].
func (a *at) Passage() membrane.Passage {
	if a.everywhere.nothing() && a.rooted.nothing() && a.sheet.fallback == membrane.Silent {
		return membrane.Open
	}
	denied := false // by a rule
	for _, right := range naming {
		v := a.Judge(right)
		if v.Says != membrane.Denies {
			return membrane.Open
		}
		denied = denied || v.Rule >= 0
	}
	if a.leads(denied) {
		return membrane.Through
	}
	return membrane.Withheld
}

// nothing reports whether no pattern matches.
func (s standing) nothing() bool { return s.at == nil || !s.at.Any() }

// leads reports whether something below the path, where naming is denied, may be named:
// by a rule, or because none allows it.
func (a *at) leads(byRule bool) bool {
	if !byRule {
		return a.area != nil && a.area.leads || a.everywhere.allowsBelow() || a.rooted.allowsBelow()
	}
	return a.everywhere.exceptsBelow() && a.rooted.exceptsBelow()
}

// allowsBelow reports whether an allow rule may match something below the path.
func (s standing) allowsBelow() bool {
	if s.at == nil {
		return false
	}
	for i := range s.group.rules {
		if c := &s.group.rules[i]; c.says == membrane.Allows && s.any(c.patterns) {
			return true
		}
	}
	return false
}

func (s standing) any(patterns []int) bool {
	for _, p := range patterns {
		if s.at.May(p) {
			return true
		}
	}
	return false
}

// exceptsBelow reports whether every rule that denies naming the path may have an
// exception below.
func (s standing) exceptsBelow() bool {
	if s.nothing() {
		return true
	}
	for i := range s.group.rules {
		c := &s.group.rules[i]
		if c.says != membrane.Denies || c.operations&(membrane.Read|membrane.List|membrane.Metadata) == 0 || !s.matches(c) {
			continue
		}
		below := false
		for e := c.from; e < c.from+c.except; e++ {
			below = below || s.at.May(e)
		}
		if !below {
			return false
		}
	}
	return true
}

// matches reports whether c applies to the path.
func (s standing) matches(c *compiled) bool {
	for _, p := range c.patterns {
		if s.at.Matches(p) {
			return !s.excepts(c)
		}
	}
	return false
}

// Bounds implements [membrane.Judge].
func (a *at) Bounds(need membrane.Rights) (b membrane.Bounds) {
	a.everywhere.bounds(need, "", &b)
	a.rooted.bounds(need, a.inside, &b)
	return b
}

// bounds adds the bounds of the rules that match to b. root is the path of their root.
func (s standing) bounds(need membrane.Rights, root string, b *membrane.Bounds) {
	if s.nothing() {
		return
	}
	for word, hit := range s.at.Hits() {
		for hit &= s.group.bounds[word]; hit != 0; hit &= hit - 1 {
			c := &s.group.rules[s.group.of[word*64+bits.TrailingZeros64(hit)]]
			if c.operations&need != 0 && !s.excepts(c) {
				tighten(b, c.limit, root)
			}
		}
	}
}

// tighten adds the bounds of a rule whose root is at root to b. Of two roots within
// which links must stay, the inner one counts.
func tighten(b *membrane.Bounds, limit membrane.Bounds, root string) {
	if m := limit.MaxFileBytes; m > 0 && (b.MaxFileBytes == 0 || m < b.MaxFileBytes) {
		b.MaxFileBytes = m
	}
	b.NoLinks = b.NoLinks || limit.NoLinks
	b.NoHardLinks = b.NoHardLinks || limit.NoHardLinks
	b.AuditReads = b.AuditReads || limit.AuditReads
	if limit.LinksInside {
		b.LinksInside = true
		if len(root) > len(b.Inside) {
			b.Inside = root
		}
	}
}

// Why implements [membrane.Judge].
func (a *at) Why(v membrane.Verdict) *membrane.Ruled {
	r := &membrane.Ruled{Says: v.Says}
	if v.Rule >= 0 && int(v.Rule) < len(a.sheet.rules) {
		r.Source = a.sheet.rules[v.Rule].Source
	}
	return r
}
