package config

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/token"

	"capd/vfs"
)

// maxMistakes is how many mistakes are reported at once.
const maxMistakes = 20

// maxQuoted is how many characters of the file a mistake repeats at most.
const maxQuoted = 64

// place is a place in a file: line and column, both from 1.
type place struct{ line, column int }

// start is the place of a mistake that concerns the whole file.
var start = place{1, 1}

// placeOf returns where n begins.
func placeOf(n ast.Node) place {
	if m, ok := n.(*ast.MappingNode); ok && !m.IsFlowStyle && len(m.Values) > 0 {
		n = m.Values[0].Key // the mapping's own position is the first colon
	}
	return placeOfToken(n.GetToken())
}

func placeOfToken(t *token.Token) place {
	if t == nil || t.Position == nil {
		return start
	}
	return place{max(t.Position.Line, 1), max(t.Position.Column, 1)}
}

// reader reads one file and collects its mistakes.
type reader struct {
	name     string // of the file
	mistakes []mistake
}

type mistake struct {
	at  place
	msg string
}

// mistake adds a mistake: what is wrong, and after a semicolon what to write instead.
func (r *reader) mistake(at place, format string, args ...any) {
	r.mistakes = append(r.mistakes, mistake{at, fmt.Sprintf(format, args...)})
}

// where is "NAME:LINE:COLUMN".
func (r *reader) where(at place) string { return fmt.Sprintf("%s:%d:%d", r.name, at.line, at.column) }

// err returns all mistakes as one error, or nil.
func (r *reader) err() error {
	if len(r.mistakes) == 0 {
		return nil
	}
	slices.SortStableFunc(r.mistakes, func(a, b mistake) int {
		return cmp.Or(cmp.Compare(a.at.line, b.at.line), cmp.Compare(a.at.column, b.at.column))
	})
	var lines []string
	for i, m := range r.mistakes {
		if i == maxMistakes {
			lines = append(lines, fmt.Sprintf("%s: %d more mistakes from here on; correct those above first", r.where(m.at), len(r.mistakes)-i))
			break
		}
		lines = append(lines, r.where(m.at)+": "+m.msg)
	}
	return &vfs.Error{Code: vfs.Invalid, Msg: strings.Join(lines, "\n")}
}

// quote returns s as a mistake repeats it.
func quote(s string) string {
	if utf8.RuneCountInString(s) > maxQuoted {
		s = string([]rune(s)[:maxQuoted]) + "…"
	}
	return strconv.Quote(s)
}
