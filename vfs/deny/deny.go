// Package deny has the guards that withhold paths, and those that let them be
// read but not changed without an approval.
package deny

import (
	"context"
	"slices"
	"strings"
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
	raw, folded []*vfs.Pattern
	names       names // the folded ones
	lower       bool  // every pattern is its own folded form
}

// Compile reads patterns. It answers invalid.
func Compile(patterns ...string) (*Rules, error) {
	r := &Rules{lower: true}
	for _, text := range patterns {
		p, err := vfs.Compile(text)
		if err != nil {
			return nil, err
		}
		f, err := vfs.Compile(fold(text))
		if err != nil {
			return nil, err
		}
		r.lower = r.lower && fold(text) == text
		r.raw = append(r.raw, p)
		r.folded = append(r.folded, f)
		r.names.add(fold(text), f)
	}
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
	folded := fold(path)
	if r.names.match(folded) {
		return true
	}
	if r.lower && (folded == path || isASCII(path)) {
		return false // lowering ends no match of what is lower
	}
	return covers(r.raw, path)
}

func covers(ps []*vfs.Pattern, path string) bool {
	return slices.ContainsFunc(ps, func(p *vfs.Pattern) bool { return p.Match(path) })
}

// Same reports whether every pattern covers the same names below from as below
// to.
func (r *Rules) Same(from, to string) bool {
	return same(r.raw, from, to) && same(r.folded, fold(from), fold(to))
}

func same(ps []*vfs.Pattern, from, to string) bool {
	return !slices.ContainsFunc(ps, func(p *vfs.Pattern) bool {
		return !slices.Equal(after(p, from), after(p, to))
	})
}

// after is how far p has matched at path: what it covers below depends on
// nothing else.
func after(p *vfs.Pattern, path string) vfs.State {
	s := p.Start()
	for name := range strings.SplitSeq(path, "/") {
		s = p.Step(s, name)
	}
	return s
}

// fold makes characters alike that a filesystem or a reader may take for the
// same, as Unicode's NFKC_Casefold does: compatible characters, cases, and those
// that show nothing. It keeps names apart: what becomes a "/" ends none. ASCII,
// which is nearly all there is, is only lowered.
func fold(path string) string {
	for i := range len(path) {
		if path[i] >= utf8.RuneSelf {
			names := strings.Split(path, "/")
			for i, name := range names {
				names[i] = strings.ReplaceAll(foldName(name), "/", "\u2215")
			}
			return strings.Join(names, "/")
		}
	}
	return strings.ToLower(path)
}

func foldName(name string) string {
	name = strings.Map(func(r rune) rune {
		if unicode.In(r, unicode.Cf, unicode.Other_Default_Ignorable_Code_Point, unicode.Variation_Selector) {
			return -1
		}
		return r
	}, name)
	return norm.NFKC.String(cases.Fold().String(norm.NFKC.String(name)))
}

// Guard withholds what r covers: enumeration leaves it out, and naming it is
// denied before the store is asked, whether or not it exists.
func (r *Rules) Guard() vfs.Guard { return vfs.Guard{Hides: r.Match, Same: r.Same} }

// Ask lets what r covers be read, and puts every change of it to approve, with
// the operation that is to be approved; approve answers nil, askDenied or
// askTimeout. A nil approve is for where nobody is listening: askDenied.
func (r *Rules) Ask(approve func(context.Context, vfs.Op) error) vfs.Guard {
	if approve == nil {
		approve = func(context.Context, vfs.Op) error { return vfs.AskDenied }
	}
	return vfs.Guard{
		Same:    r.Same,
		Changes: true,
		Around: func(ctx context.Context, op vfs.Op, do func(context.Context) (vfs.Effect, error)) (vfs.Effect, error) {
			if r.Match(op.Path) || op.To != "" && r.Match(op.To) {
				if err := approve(ctx, op); err != nil {
					return vfs.Effect{}, err
				}
			}
			return do(ctx)
		},
	}
}
