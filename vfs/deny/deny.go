// Package deny has guards that withhold paths, and guards that allow paths to be read
// but require an approval to change them.
package deny

import (
	"context"
	"strings"
	"sync/atomic"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/cases"
	"golang.org/x/text/unicode/norm"

	"capd/vfs"
	"capd/vfs/membrane"
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
	raw, folded names
	alike       bool // every pattern equals its folded form, so one match is enough

	start *state
	all   *state // everything from here on matches
}

// Compile parses patterns. It answers invalid.
func Compile(patterns ...string) (*Rules, error) {
	r := &Rules{alike: true}
	for _, text := range patterns {
		if err := r.raw.add(text); err != nil {
			return nil, err
		}
		if err := r.folded.add(fold(text)); err != nil {
			return nil, err
		}
		r.alike = r.alike && fold(text) == text
	}
	r.start = &state{rules: r, folded: r.folded.start()}
	if !r.alike {
		r.start.raw = r.raw.start()
	}
	r.all = &state{rules: r, hit: true}
	return r, nil
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
func (r *Rules) Match(path string) bool {
	m := r.Matcher()
	for name := range strings.SplitSeq(path, "/") {
		m = m.Step(name)
	}
	return m.Matched()
}

// fold folds characters that a filesystem or a reader may take for the same, as
// Unicode's NFKC_Casefold does: case, compatible characters, and invisible characters.
// A character that folds to "/" does not end a name.
func fold(path string) string {
	names := strings.Split(path, "/")
	for i, name := range names {
		names[i] = foldName(name)
	}
	return strings.Join(names, "/")
}

// foldName folds one name. For ASCII, by far the common case, it only lowers case.
func foldName(name string) string {
	if isASCII(name) {
		return strings.ToLower(name)
	}
	if last := lastFolded.Load(); last != nil && last.name == name {
		return last.folded
	}
	folded := caseFold(name)
	lastFolded.Store(&foldedName{strings.Clone(name), folded})
	return folded
}

// lastFolded is the name folded last. The guards of a mount fold the same name one
// after the other, and folding is slow.
var lastFolded atomic.Pointer[foldedName]

type foldedName struct{ name, folded string }

func caseFold(name string) string {
	name = strings.Map(func(r rune) rune {
		if unicode.In(r, unicode.Cf, unicode.Other_Default_Ignorable_Code_Point, unicode.Variation_Selector) {
			return -1
		}
		return r
	}, name)
	name = norm.NFKC.String(name)
	if lower := cases.Fold().String(name); lower != name {
		name = norm.NFKC.String(lower)
	}
	return strings.ReplaceAll(name, "/", "\u2215")
}

func isASCII(s string) bool {
	for i := range len(s) {
		if s[i] >= utf8.RuneSelf {
			return false
		}
	}
	return true
}

// Guard returns a guard that withholds what r matches: listings leave it out, and a
// call that names it is denied before the store is asked, whether or not it exists.
func (r *Rules) Guard() membrane.Guard { return membrane.Guard{Hides: r.Matcher()} }

// Ask returns a guard that allows reads of what r matches, and asks approve before
// every change of it. approve returns nil, askDenied or askTimeout. If approve is nil,
// the answer is askDenied.
func (r *Rules) Ask(approve func(context.Context, membrane.Op) error) membrane.Guard {
	if approve == nil {
		approve = func(context.Context, membrane.Op) error { return vfs.AskDenied }
	}
	return membrane.Guard{
		On:      r.Matcher(),
		Changes: true,
		Around: func(ctx context.Context, op membrane.Op, do func(context.Context) (vfs.Effect, error)) (vfs.Effect, error) {
			if err := approve(ctx, op); err != nil {
				return vfs.Effect{}, err
			}
			return do(ctx)
		},
	}
}
