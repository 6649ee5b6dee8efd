package membrane

import "capd/vfs"

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
