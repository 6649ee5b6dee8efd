package pattern

import (
	"strings"
	"sync/atomic"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/cases"
	"golang.org/x/text/unicode/norm"
)

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
