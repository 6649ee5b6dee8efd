package vfs

import "slices"

// Matcher says which paths below a root a rule is about, name by name. It stands at
// one path and never changes. Each directory behind a membrane keeps those of its
// guards, so that every name on a path is looked at once, however long the path is.
// Its type is comparable: a pointer as a rule. It is safe for concurrent use.
type Matcher interface {
	// Matched reports whether the rule is about the path where the matcher stands.
	Matched() bool

	// Step returns the matcher of name below. It may be the same one.
	Step(name string) Matcher

	// Same reports whether the rule is about the same names below here as below
	// the path of to, a matcher of the same root: a directory may move whole from
	// one to the other.
	Same(to Matcher) bool
}

// MatchPaths returns a Matcher, at the root, of the paths that f reports. f is pure and
// is given whole paths, so it should be little work. What it says of one directory is
// not known of another: no directory moves whole.
func MatchPaths(f func(path string) bool) Matcher { return &paths{f: f} }

type paths struct {
	f    func(string) bool
	path string
}

func (p *paths) Matched() bool            { return p.f(p.path) }
func (p *paths) Step(name string) Matcher { return &paths{p.f, Join(p.path, name)} }

func (p *paths) Same(to Matcher) bool {
	other, ok := to.(*paths)
	return ok && p.path == other.path
}

// rules are the matchers of a world's guards at one path: first of those that hide,
// then of those that stand around what they match.
type rules []Matcher

// step returns the rules of name below.
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

// walk is step for every name of a path.
func (r rules) walk(names []string) rules {
	for _, name := range names {
		r = r.step(name)
	}
	return r
}

// same reports whether every rule says the same below r as below to.
func (r rules) same(to rules) bool {
	for i, m := range r {
		if !m.Same(to[i]) {
			return false
		}
	}
	return true
}

// hides reports whether what stands at r is withheld.
func (w *world) hides(r rules) bool {
	for _, m := range r[:w.hiding] {
		if m.Matched() {
			return true
		}
	}
	return false
}

// hidesIn reports whether name is withheld in the directory at r.
func (w *world) hidesIn(r rules, name string) bool {
	for _, m := range r[:w.hiding] {
		if m.Step(name).Matched() {
			return true
		}
	}
	return false
}
