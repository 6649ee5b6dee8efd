// Package deny has guards that withhold paths, and guards that allow paths to be read
// but require an approval to change them.
package deny

import (
	"capd/vfs/membrane"
	"capd/vfs/pattern"
)

// Secrets are the patterns withheld by default on a mounted host directory: places
// where programs keep keys and passwords.
var Secrets = []string{
	"**/.ssh/**", "**/.aws/**", "**/.gnupg/**", "**/.env", "**/.env.*", "**/*.pem", "**/*.key",
	"**/credentials.json", "**/.netrc", "**/.npmrc",
}

// Triggers are the patterns that need an approval by default on a mounted host
// directory: files that cause programs of the host to run something later. They include
// all of .git and the name .git itself: hooks, configuration, and files that point git
// elsewhere (docs/decisions/0006).
var Triggers = []string{
	"**/.git/**", "**/.claude/**", "**/.cursor/**", "**/.vscode/**",
	"**/.mcp.json", "**/.envrc",
}

// Rules are patterns, matched from the guarded root. A pattern that ends in /** also
// matches the directory itself. Each pattern is matched against the path as it is, and
// again with case and compatible characters folded on both sides, as some filesystems
// do.
type Rules struct {
	set      *pattern.Set
	patterns []string
}

// Compile parses patterns. It answers invalid.
func Compile(patterns ...string) (*Rules, error) {
	set, err := pattern.Compile(patterns, nil)
	if err != nil {
		return nil, err
	}
	return &Rules{set, patterns}, nil
}

// Must is Compile for patterns that are known to be valid. It panics otherwise.
func Must(patterns ...string) *Rules {
	r, err := Compile(patterns...)
	if err != nil {
		panic(err)
	}
	return r
}

// Match reports whether a pattern matches path.
func (r *Rules) Match(path string) bool { return r.set.At(path).Any() }

// Matcher returns a matcher, at the root, of the paths that r matches.
func (r *Rules) Matcher() membrane.Matcher { return at{r.set.Start()} }

// at is a matcher of the paths that any pattern matches.
type at struct{ *pattern.At }

// Matched implements [membrane.Matcher].
func (a at) Matched() bool { return a.Any() }

// Step implements [membrane.Matcher].
func (a at) Step(name string) membrane.Matcher {
	if a.All() {
		return a
	}
	return at{a.At.Step(name)}
}

// Same implements [membrane.Matcher].
func (a at) Same(to membrane.Matcher) bool {
	b, ok := to.(at)
	return ok && (a.All() && b.All() || a.At.Same(b.At))
}

// Guard returns a guard that withholds what r matches: listings leave it out, and a
// call that names it is denied before the store is asked, whether or not it exists.
func (r *Rules) Guard() membrane.Guard {
	return membrane.Guard{Hides: r.Matcher(), Why: r.matched}
}

// Ask returns a guard that allows reads of what r matches, and needs an approval for every
// change of it. of is what r belongs to, for the operator: the name of a mount.
func (r *Rules) Ask(of string) membrane.Guard {
	return membrane.Guard{Asks: r.Matcher(), Why: func(m membrane.Matcher) string { return of + ": " + r.matched(m) }}
}

// matched returns the first pattern that has matched at m.
func (r *Rules) matched(m membrane.Matcher) string {
	for i, p := range r.patterns {
		if m.(at).Matches(i) {
			return p
		}
	}
	return ""
}
