package grep

import (
	"bytes"
	"regexp/syntax"
	"slices"
	"unicode"
	"unicode/utf8"
)

// maxLiterals is how many texts one pattern is looked for by.
const maxLiterals = 8

// literal is a text that a line is looked for by.
type literal struct {
	text []byte
	fold bool // the text is ASCII in lower case, and its letters stand for both cases
	rare int  // the index of the byte to look for
}

// required returns texts of which every match of re holds one; none if it knows none.
func required(re *syntax.Regexp) []literal {
	switch re.Op {
	case syntax.OpLiteral:
		return literals(re)
	case syntax.OpCapture, syntax.OpPlus:
		return required(re.Sub[0])
	case syntax.OpRepeat:
		if re.Min > 0 {
			return required(re.Sub[0])
		}
	case syntax.OpConcat:
		var best []literal
		for _, sub := range re.Sub {
			if l := required(sub); better(l, best) {
				best = l
			}
		}
		return best
	case syntax.OpAlternate:
		var all []literal
		for _, sub := range re.Sub {
			l := required(sub)
			if len(l) == 0 || len(all)+len(l) > maxLiterals {
				return nil
			}
			all = append(all, l...)
		}
		return all
	}
	return nil
}

// better reports whether lines are found faster by a than by b: by its shortest text.
func better(a, b []literal) bool {
	if len(a) == 0 || len(b) == 0 {
		return len(a) > 0
	}
	shortest := func(all []literal) int {
		n := len(all[0].text)
		for _, l := range all {
			n = min(n, len(l.text))
		}
		return n
	}
	x, y := shortest(a), shortest(b)
	return x > y || x == y && len(a) < len(b)
}

// literals returns the text of a literal expression.
func literals(re *syntax.Regexp) []literal {
	switch {
	case slices.Contains(re.Rune, utf8.RuneError): // it stands for bytes that are no UTF-8, too
		return nil
	case re.Flags&syntax.FoldCase == 0:
		return []literal{exactly([]byte(string(re.Rune)))}
	}
	var best, run []byte
	for _, r := range re.Rune {
		if r >= utf8.RuneSelf { // in another case it may have more bytes, or fewer
			run = nil
			continue
		}
		if run = append(run, byte(unicode.ToLower(r))); len(run) > len(best) {
			best = run
		}
	}
	rare := -1
	for i, c := range best {
		if !wide(c) && (rare < 0 || frequency(c) < frequency(best[rare])) {
			rare = i
		}
	}
	if rare < 0 {
		return nil
	}
	return []literal{{text: best, fold: true, rare: rare}}
}

// exactly returns text as it is.
func exactly(text []byte) literal {
	l := literal{text: text}
	for i, c := range text {
		if frequency(c) < frequency(text[l.rare]) {
			l.rare = i
		}
	}
	return l
}

// plain reports whether what holds one of the required texts of re matches it.
func plain(re *syntax.Regexp) bool {
	switch re.Op {
	case syntax.OpLiteral:
		return re.Flags&syntax.FoldCase == 0 && !slices.Contains(re.Rune, utf8.RuneError)
	case syntax.OpCapture:
		return plain(re.Sub[0])
	case syntax.OpAlternate:
		for _, sub := range re.Sub {
			if !plain(sub) {
				return false
			}
		}
		return len(re.Sub) <= maxLiterals
	}
	return false
}

// wide reports whether a letter, without regard to case, has a form of more than one byte:
// K is also the sign for kelvin, and S is also the long s.
func wide(c byte) bool { return c == 'k' || c == 's' }

// frequency says how often a byte occurs in source code and prose, in either case; the
// higher the more often. It need not be exact.
func frequency(c byte) int {
	const common = "zjqxvwkybgfm0123456789pdhculo\tinsrat_.e " // the rarest first
	if i := bytes.IndexByte([]byte(common), c); i >= 0 {
		return i
	}
	return 0
}

// index returns the index in b of the next place where l may be, or -1. With fold it may
// be another text: a letter that may be wide stands for anything that is not ASCII.
func (l *literal) index(b []byte) int {
	if !l.fold {
		return l.exact(b)
	}
	c := l.text[l.rare]
	upper := c
	if 'a' <= c && c <= 'z' {
		upper -= 'a' - 'A'
	}
	// Of both cases, the next place of each; len(b) when there is none.
	nextLower, nextUpper := -1, len(b)
	if upper != c {
		nextUpper = -1
	}
	for at := 0; ; {
		if nextLower < at {
			nextLower = next(b, c, at)
		}
		if nextUpper < at {
			nextUpper = next(b, upper, at)
		}
		at = min(nextLower, nextUpper)
		if at == len(b) {
			return -1
		}
		if l.maybe(b, at) {
			return at
		}
		at++
	}
}

// exact is index without fold. It looks for the rare byte alone, until that proves to be frequent.
func (l *literal) exact(b []byte) int {
	if l.rare == 0 {
		return bytes.Index(b, l.text)
	}
	for at, vain := l.rare, 0; at < len(b); at++ {
		i := bytes.IndexByte(b[at:], l.text[l.rare])
		if i < 0 {
			return -1
		}
		at += i
		from := at - l.rare
		if bytes.HasPrefix(b[from:], l.text) {
			return from
		}
		if vain++; vain > 4+at/16 {
			if i := bytes.Index(b[from+1:], l.text); i >= 0 {
				return from + 1 + i
			}
			return -1
		}
	}
	return -1
}

// next returns the index of c in b from the index at on, or len(b).
func next(b []byte, c byte, at int) int {
	if i := bytes.IndexByte(b[at:], c); i >= 0 {
		return at + i
	}
	return len(b)
}

// maybe reports whether l may be where its rare letter is at b[at].
func (l *literal) maybe(b []byte, at int) bool {
	for i := l.rare + 1; i < len(l.text); i++ {
		j := at + i - l.rare
		if j >= len(b) {
			return false
		}
		if same, known := l.same(b[j], i); !known {
			break
		} else if !same {
			return false
		}
	}
	for i := l.rare - 1; i >= 0; i-- {
		j := at + i - l.rare
		if j < 0 {
			return false
		}
		if same, known := l.same(b[j], i); !known {
			break
		} else if !same {
			return false
		}
	}
	return true
}

// same reports whether c may be the letter i of l. known is false if that takes more bytes
// to tell.
func (l *literal) same(c byte, i int) (same, known bool) {
	want := l.text[i]
	if 'A' <= c && c <= 'Z' {
		c += 'a' - 'A'
	}
	if c >= utf8.RuneSelf && wide(want) {
		return false, false
	}
	return c == want, true
}
