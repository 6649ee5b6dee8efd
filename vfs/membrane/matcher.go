package membrane

import (
	"slices"

	"capd/vfs"
)

// Matcher says which paths a rule applies to. A Matcher belongs to one path and never
// changes; Step returns the Matcher of a path one name below. A directory behind a membrane keeps the
// matchers of its guards, so each name of a path is matched once, however long the path
// is. The type must be comparable, usually a pointer. Safe for concurrent use.
type Matcher interface {
	// Matched reports whether the rule applies to the Matcher's path.
	Matched() bool

	// Step returns the Matcher of the path with name added. It may be the same one.
	Step(name string) Matcher

	// Same reports whether the rule applies to the same names below this path as below
	// that of to, a matcher with the same root. If so, a directory may move as a whole
	// from one path to the other.
	Same(to Matcher) bool
}

// MatchPaths returns a Matcher, at the root, of the paths for which f returns true. f
// must be pure and quick; it is given whole paths. Same is false for different paths,
// so no directory moves as a whole.
func MatchPaths(f func(path string) bool) Matcher { return &paths{f: f} }

type paths struct {
	f    func(string) bool
	path string
}

func (p *paths) Matched() bool            { return p.f(p.path) }
func (p *paths) Step(name string) Matcher { return &paths{p.f, vfs.Join(p.path, name)} }

func (p *paths) Same(to Matcher) bool {
	other, ok := to.(*paths)
	return ok && p.path == other.path
}

// rules are the matchers of a tree's guards at one path: first those of Hides, then
// those of Asks and On.
type rules []Matcher

// step returns the rules for name below.
func (r rules) step(name string) rules {
	next := r
	for i, m := range r {
		n := m.Step(name)
		if n == m {
			continue
		}
		if &next[0] == &r[0] {
			next = slices.Clone(r)
		}
		next[i] = n
	}
	return next
}

// walk takes a step for every name of a path.
func (r rules) walk(names []string) rules {
	for _, name := range names {
		r = r.step(name)
	}
	return r
}

// same reports whether every rule applies to the same names below r as below to.
func (r rules) same(to rules) bool {
	return slices.EqualFunc(r, to, Matcher.Same)
}

// hides reports whether a rule in r withholds the path of r.
func (s *guardSet) hides(r rules) bool {
	return slices.ContainsFunc(r[:s.hiding], Matcher.Matched)
}

// hidesIn reports whether name is withheld in the directory at r.
func (s *guardSet) hidesIn(r rules, name string) bool {
	return slices.ContainsFunc(r[:s.hiding], func(m Matcher) bool { return m.Step(name).Matched() })
}
