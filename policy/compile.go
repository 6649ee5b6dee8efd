package policy

import (
	"math/bits"
	"slices"
	"strings"

	"capd/operator"
	"capd/vfs"
	"capd/vfs/membrane"
	"capd/vfs/pattern"
)

// sheet is the rules that apply to one subject, compiled. It never changes.
type sheet struct {
	rules    []operator.Rule
	fallback membrane.Says // where no rule matches: Silent or Denies
	start    *at
}

// group is the rules whose patterns begin at one directory.
type group struct {
	set   *pattern.Set
	rules []compiled
	of    []int32 // by pattern, an index in rules; -1 for one of an except

	// The patterns of rules by what they say and the right that they say it of, and of
	// those that bound something, each as a set of bits.
	about  [membrane.Denies + 1][rights][]uint64
	bounds []uint64
}

// rights is how many rights there are.
const rights = 9

// compiled is a rule of a group.
type compiled struct {
	rule         int32 // in sheet.rules
	says         membrane.Says
	operations   membrane.Rights
	from, except int // its excepts are the patterns from: from+except
	patterns     []int
	limit        membrane.Bounds
}

// area is a directory on the way to a root, or a root.
type area struct {
	below  map[string]*area
	each   *area // where below has none: one for all names
	root   bool
	path   string // of a root, below each only its name; and of what has an each
	ruling *group // of the rules for this root; nil for none
	leads  bool   // a rule allows something in a root below
}

var says = map[operator.RuleEffect]membrane.Says{operator.RuleAllow: membrane.Allows, operator.RuleAsk: membrane.Asks, operator.RuleDeny: membrane.Denies}

// compile compiles rules, which were checked. Only rules for roots look at roots.
func compile(rules []operator.Rule, roots []operator.Root, fallback membrane.Says) (*sheet, error) {
	s := &sheet{rules: rules, fallback: fallback}
	everywhere, err := s.group(func(r operator.RuleRoot) bool { return r == operator.RuleRoot{} })
	if err != nil {
		return nil, err
	}
	top := &area{}
	for _, root := range roots {
		ruling, err := s.group(func(r operator.RuleRoot) bool { return r != operator.RuleRoot{} && names(r, root) })
		if err != nil {
			return nil, err
		}
		here := top.at(root.Path, ruling.allows())
		here.root, here.path, here.ruling = true, root.Path, ruling
		if root.Kind == operator.Workspace {
			top.scopes(root, ruling)
		}
	}
	s.start = &at{sheet: s, everywhere: everywhere.start()}
	s.start.enter(top)
	return s, nil
}

// at returns the area at path below a, which it makes. leads is noted on the way there.
func (a *area) at(path string, leads bool) *area {
	for path != "" {
		a.leads = a.leads || leads
		var name string
		name, path, _ = strings.Cut(path, "/")
		next := a.below[name]
		if next == nil {
			next = &area{}
			if a.below == nil {
				a.below = map[string]*area{}
			}
			a.below[name] = next
		}
		a = next
	}
	return a
}

// scopes makes the areas in which the host mounts root for guests, so that the rules for root hold there too. a is the top.
func (a *area) scopes(root operator.Root, ruling *group) {
	leads := ruling.allows()
	path := vfs.Join(operator.ScopesDir, root.ID)
	all := a.at(path, leads)
	all.path, all.leads = path, all.leads || leads
	all.each = &area{leads: leads, below: map[string]*area{}}
	for _, name := range []string{root.ID, root.Draft()} {
		all.each.below[name] = &area{root: true, path: name, ruling: ruling}
	}
}

// allows reports whether a rule allows something.
func (g *group) allows() bool {
	return g != nil && slices.ContainsFunc(g.rules, func(c compiled) bool { return c.says == membrane.Allows })
}

// group compiles the rules for whose root is reports true. It returns nil if there are
// none.
func (s *sheet) group(is func(operator.RuleRoot) bool) (*group, error) {
	g := &group{}
	var folding, exact []string
	for i, r := range s.rules {
		if !is(r.Root) {
			continue
		}
		operations, err := operationsOf(r)
		if err != nil {
			return nil, err
		}
		c := compiled{rule: int32(i), says: says[r.Effect], operations: operations, limit: bound(r), except: len(r.Except)}
		if r.Effect != operator.RuleAllow {
			folding = append(folding, r.Patterns...)
		}
		g.rules = append(g.rules, c)
	}
	if len(g.rules) == 0 {
		return nil, nil
	}
	n, m := 0, len(folding) // the next pattern of each kind
	for i := range g.rules {
		c := &g.rules[i]
		r, next := s.rules[c.rule], &n
		if r.Effect == operator.RuleAllow {
			next = &m
			exact = append(exact, r.Patterns...)
		}
		for range r.Patterns {
			c.patterns = append(c.patterns, *next)
			*next++
		}
		c.from = m
		m += c.except
		exact = append(exact, r.Except...)
	}
	set, err := pattern.Compile(folding, exact)
	if err != nil {
		return nil, err
	}
	g.set = set
	g.index(m)
	return g, nil
}

// index sets what a decision looks up, for size patterns.
func (g *group) index(size int) {
	words := (size + 63) / 64
	for says := range g.about {
		for right := range g.about[says] {
			g.about[says][right] = make([]uint64, words)
		}
	}
	g.bounds, g.of = make([]uint64, words), make([]int32, size)
	for i := range g.of {
		g.of[i] = -1
	}
	for i, c := range g.rules {
		for _, p := range c.patterns {
			g.of[p] = int32(i)
			for r := uint16(c.operations); r != 0; r &= r - 1 {
				g.about[c.says][bits.TrailingZeros16(r)][p/64] |= 1 << (p % 64)
			}
			if c.limit != (membrane.Bounds{}) {
				g.bounds[p/64] |= 1 << (p % 64)
			}
		}
	}
}

// bound returns the bounds of a rule.
func bound(r operator.Rule) membrane.Bounds {
	return membrane.Bounds{
		MaxFileBytes: r.MaxFileBytes,
		NoLinks:      r.Symlinks == operator.SymlinksReject,
		LinksInside:  r.Symlinks == operator.SymlinksInRoot,
		NoHardLinks:  r.Hardlinks == operator.HardlinksReject,
		AuditReads:   r.Audit == operator.AuditReads,
	}
}

// operationsOf returns the operations of a rule as rights. It answers invalid.
func operationsOf(r operator.Rule) (membrane.Rights, error) {
	if len(r.Operations) == 0 {
		return membrane.EveryRight, nil
	}
	return membrane.ParseRights(strings.Join(r.Operations, ","))
}
