// Package grep finds the lines of files that match a regular expression. It reads a file
// in windows, in time linear in its size, whatever the expression is.
package grep

import (
	"regexp/syntax"
	"strings"

	"capd/vfs"
)

// Bounds of a pattern.
const (
	MaxPattern = 1024 // bytes of its text
	maxProgram = 2000 // instructions of the compiled expression: each byte costs at most so many steps
)

// Syntax says how the text of a pattern is read.
type Syntax struct {
	IgnoreCase bool
	Words      bool // a match is neither preceded nor followed by a letter, a digit or _
	Fixed      bool // the text is no expression: it stands for itself
}

// Pattern matches lines. It is an expression in the syntax of RE2, which Go's package
// regexp describes, for one line without its end (LF or CRLF): ^ and $ are the line's
// beginning and end. A Pattern never changes; a [Searcher] uses it.
type Pattern struct {
	prog   *syntax.Prog
	finder []literal // every match holds one of them; none if that is not known
	exact  bool      // what holds one of them matches
	always bool      // every line matches
	keepCR bool      // it speaks of CR itself, so that a CR before LF is part of the line
	words  bool      // it asks for word boundaries
}

// Compile parses a pattern. It answers invalid for a pattern that is no expression, can
// only match across lines, or is too large, and limit for a text of more than [MaxPattern]
// bytes.
func Compile(text string, how Syntax) (*Pattern, error) {
	if len(text) > MaxPattern {
		return nil, vfs.Errorf(vfs.Limit, "a pattern has at most %d bytes; search for a part of it", MaxPattern)
	}
	flags := syntax.Perl
	if how.Fixed {
		flags |= syntax.Literal
	}
	if how.IgnoreCase {
		flags |= syntax.FoldCase
	}
	re, err := syntax.Parse(text, flags)
	switch {
	case err != nil:
		return nil, refused(err)
	case holds(re, '\n'):
		return nil, vfs.Errorf(vfs.Invalid, "a pattern matches within one line, and this one holds a line break; search for one of the lines")
	case size(re) > maxProgram:
		return nil, errLarge
	}
	p := &Pattern{keepCR: holds(re, '\r')}
	p.finder = required(re)
	p.exact = !how.Words && plain(re)
	if how.Words {
		re = word(re)
	}
	if p.prog, err = syntax.Compile(re.Simplify()); err != nil {
		return nil, refused(err)
	}
	if len(p.prog.Inst) > maxProgram {
		return nil, errLarge
	}
	for i := range p.prog.Inst {
		in := &p.prog.Inst[i]
		p.words = p.words || in.Op == syntax.InstEmptyWidth && syntax.EmptyOp(in.Arg)&(syntax.EmptyWordBoundary|syntax.EmptyNoWordBoundary) != 0
	}
	p.always = newDFA(p).start == matched
	return p, nil
}

var errLarge = vfs.Errorf(vfs.Invalid, "a pattern is too large: it repeats too much; use smaller counts, or + and *")

// refused returns the error for a text that is no expression.
func refused(err error) error {
	if e, ok := err.(*syntax.Error); ok {
		switch e.Code {
		case syntax.ErrLarge, syntax.ErrNestingDepth:
			return errLarge
		}
		return vfs.Errorf(vfs.Invalid, "a pattern is no regular expression (RE2): %s: %s; escape with \\ what stands for itself, or search for fixed text", e.Code, vfs.Printable(e.Expr))
	}
	return vfs.Errorf(vfs.Invalid, "a pattern is no regular expression (RE2)")
}

// word returns re between two places that are no middle of a word.
func word(re *syntax.Regexp) *syntax.Regexp {
	side := func(edge syntax.Op) *syntax.Regexp {
		other, _ := syntax.Parse(`[^\pL\pM\pN_]`, syntax.Perl)
		return &syntax.Regexp{Op: syntax.OpAlternate, Sub: []*syntax.Regexp{{Op: edge}, other}}
	}
	return &syntax.Regexp{Op: syntax.OpConcat, Sub: []*syntax.Regexp{side(syntax.OpBeginText), re, side(syntax.OpEndText)}}
}

// holds reports whether re names the character r by itself.
func holds(re *syntax.Regexp, r rune) bool {
	switch re.Op {
	case syntax.OpLiteral:
		return strings.ContainsRune(string(re.Rune), r)
	case syntax.OpCharClass:
		return len(re.Rune) == 2 && re.Rune[0] == r && re.Rune[1] == r
	}
	for _, sub := range re.Sub {
		if holds(sub, r) {
			return true
		}
	}
	return false
}

// size estimates how many instructions re needs. It does not unfold what is repeated.
func size(re *syntax.Regexp) int {
	n := 1
	switch re.Op {
	case syntax.OpLiteral:
		n = len(re.Rune)
	case syntax.OpRepeat:
		times := max(re.Max, re.Min+1, 1)
		return min(times*(size(re.Sub[0])+1), 2*maxProgram)
	}
	for _, sub := range re.Sub {
		n = min(n+size(sub)+1, 2*maxProgram)
	}
	return n
}
