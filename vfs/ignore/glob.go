package ignore

import "strings"

// glob is a pattern as an automaton over bytes, as wildmatch in git reads it. A position
// is the number of tokens that have matched.
type glob []token

type token struct {
	kind kind
	char byte
	set  *charset
}

type kind uint8

const (
	char    kind = iota // this byte
	one                 // any byte but a slash
	class               // a byte in a set, and no slash
	star                // any bytes but slashes
	anyStar             // ** between slashes: any bytes
	anyDirs             // ** before a slash: any bytes, or nothing without that slash
)

// charset is a set of bytes.
type charset [4]uint64

func (s *charset) add(b byte)      { s[b>>6] |= 1 << (b & 63) }
func (s *charset) has(b byte) bool { return s[b>>6]&(1<<(b&63)) != 0 }

// compile parses a pattern. It returns false for one that git never matches: with an open
// bracket, an unknown class, or a backslash at its end.
func compile(g glob, text string) (glob, bool) {
	for i := 0; i < len(text); {
		switch c := text[i]; c {
		case '\\':
			if i++; i == len(text) {
				return nil, false
			}
			g = append(g, token{char: text[i]})
			i++
		case '?':
			g = append(g, token{kind: one})
			i++
		case '*':
			end := i + 1
			for end < len(text) && text[end] == '*' {
				end++
			}
			k := starKind(text, i, end)
			if n := len(g); k == anyDirs && n > 1 && g[n-2].kind == anyDirs { // **/**/ is **/
				i = end + 1
				continue
			}
			g = append(g, token{kind: k})
			i = end
		case '[':
			set, n := parseSet(text[i:])
			if n == 0 {
				return nil, false
			}
			g = append(g, token{kind: class, set: set})
			i += n
		default:
			g = append(g, token{char: c})
			i++
		}
	}
	return g, true
}

// starKind returns what the asterisks text[from:end] stand for.
func starKind(text string, from, end int) kind {
	switch {
	case end-from == 1, from > 0 && text[from-1] != '/':
		return star
	case end < len(text) && text[end] == '/':
		return anyDirs
	case end == len(text), strings.HasPrefix(text[end:], `\/`):
		return anyStar
	}
	return star
}

// add adds the position p to at. The caller adds positions in ascending order.
func add(at []uint16, p int) []uint16 {
	if n := len(at); n == 0 || int(at[n-1]) < p {
		at = append(at, uint16(p))
	}
	return at
}

// reach adds the position p to at, and those that no further byte is needed for.
func (g glob) reach(at []uint16, p int) []uint16 {
	for ; ; p++ {
		at = add(at, p)
		if p == len(g) || g[p].kind < star {
			return at
		}
		if g[p].kind == anyDirs {
			p++ // nothing, without the slash
			at = add(at, p)
		}
	}
}

// step adds to next, which is empty, the positions after one more byte.
func (g glob) step(next, at []uint16, c byte) []uint16 {
	for _, p := range at {
		if int(p) == len(g) {
			break
		}
		switch t := &g[p]; {
		case t.kind == star && c == '/':
		case t.kind == anyDirs: // the slash has to follow now
			next = add(add(next, int(p)), int(p)+1)
		case t.kind >= star, t.is(c):
			next = g.reach(next, t.next(int(p)))
		}
	}
	return next
}

// next returns the position after a byte that t stands for at p.
func (t *token) next(p int) int {
	if t.kind >= star {
		return p
	}
	return p + 1
}

// is reports whether a token that stands for one byte stands for c.
func (t *token) is(c byte) bool {
	switch t.kind {
	case char:
		return t.char == c
	case one:
		return c != '/'
	}
	return c != '/' && t.set.has(c)
}

// after returns the positions after text, and how many positions it looked at. The memory of b
// is used for the positions.
func (g glob) after(b buffers, at []uint16, text string) (_ []uint16, steps int) {
	next, last := b[0], b[1]
	for i := 0; i < len(text) && len(at) > 0; i++ {
		steps += len(at)
		at = g.step(next[:0], at, text[i])
		next, last = last, at
	}
	return at, steps
}

// buffers is memory for one match at a time; nil: new memory.
type buffers [2][]uint16

// ends reports whether the whole pattern has matched.
func (g glob) ends(at []uint16) bool { return len(at) > 0 && int(at[len(at)-1]) == len(g) }

// apart reports whether the pattern cannot match a name, as far as that shows at its ends.
func (g glob) apart(name string) bool {
	first, last := &g[0], &g[len(g)-1]
	return first.kind < star && !first.is(name[0]) || last.kind < star && !last.is(name[len(name)-1])
}

// run returns the longest text that everything that the pattern matches contains.
func (g glob) run() string {
	var longest, run []byte
	for i := range g {
		if g[i].kind != char {
			run = run[:0]
			continue
		}
		if run = append(run, g[i].char); len(run) > len(longest) {
			longest = append(longest[:0], run...)
		}
	}
	return string(longest)
}

// literal returns the only text that a pattern matches, if there is only one.
func (g glob) literal() (string, bool) {
	var b strings.Builder
	for i := range g {
		if g[i].kind != char {
			return "", false
		}
		b.WriteByte(g[i].char)
	}
	return b.String(), true
}

// stars reports whether a pattern stands for texts of different lengths.
func (g glob) stars() bool {
	for i := range g {
		if g[i].kind >= star {
			return true
		}
	}
	return false
}
