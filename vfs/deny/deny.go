// Package deny has the guards that withhold paths, and those that let them be
// read but not changed without an approval.
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
)

// Secrets are the patterns denied by default where a host directory is mounted:
// where programs keep keys and passwords.
var Secrets = []string{
	"**/.ssh/**", "**/.aws/**", "**/.gnupg/**", "**/.env", "**/.env.*", "**/*.pem", "**/*.key",
	"**/credentials.json", "**/.netrc", "**/.npmrc",
}

// Triggers are the patterns guarded by default where a host directory is
// mounted: files that make a later program of the host run what they say. All
// of .git is among them, the name itself too: hooks and configuration, and what
// leads git to others (docs/decisions/0006).
var Triggers = []string{
	"**/.git/**", "**/.claude/**", "**/.cursor/**", "**/.vscode/**",
	"**/.mcp.json", "**/.envrc",
}

// Rules are patterns, matched from the root that they guard. A pattern that
// ends in /** covers the directory itself. Each is matched against a path as it
// is, and against both with compatible and differently cased characters made
// alike, as some filesystems do.
type Rules struct {
	raw, folded names
	alike       bool // every pattern is its own folded form, so that the two are one

	start *state
	all   *state // all that follows is covered
}

// Compile reads patterns. It answers invalid.
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

// Must is Compile for patterns that are known to be right.
func Must(patterns ...string) *Rules {
	r, err := Compile(patterns...)
	if err != nil {
		panic(err)
	}
	return r
}

// Match reports whether a pattern covers path.
func (r *Rules) Match(path string) bool {
	m := r.Matcher()
	for name := range strings.SplitSeq(path, "/") {
		m = m.Step(name)
	}
	return m.Matched()
}

// fold makes characters alike that a filesystem or a reader may take for the
// same, as Unicode's NFKC_Casefold does: compatible characters, cases, and those
// that show nothing. It keeps names apart: what becomes a "/" ends none.
func fold(path string) string {
	names := strings.Split(path, "/")
	for i, name := range names {
		names[i] = foldName(name)
	}
	return strings.Join(names, "/")
}

// foldName is fold for one name. ASCII, which is nearly all there is, is only lowered.
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

// lastFolded is the name that was folded last: the guards of a mount ask about the same
// name one after the other, and it is much work.
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

// Guard withholds what r covers: enumeration leaves it out, and naming it is
// denied before the store is asked, whether or not it exists.
func (r *Rules) Guard() vfs.Guard { return vfs.Guard{Hides: r.Matcher()} }

// Ask lets what r covers be read, and puts every change of it to approve, with
// the operation that is to be approved; approve answers nil, askDenied or
// askTimeout. A nil approve is for where nobody is listening: askDenied.
func (r *Rules) Ask(approve func(context.Context, vfs.Op) error) vfs.Guard {
	if approve == nil {
		approve = func(context.Context, vfs.Op) error { return vfs.AskDenied }
	}
	return vfs.Guard{
		On:      r.Matcher(),
		Changes: true,
		Around: func(ctx context.Context, op vfs.Op, do func(context.Context) (vfs.Effect, error)) (vfs.Effect, error) {
			if err := approve(ctx, op); err != nil {
				return vfs.Effect{}, err
			}
			return do(ctx)
		},
	}
}
