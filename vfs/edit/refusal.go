package edit

import (
	"bytes"
	"fmt"
	"strings"

	"capd/vfs"
)

// What a refusal shows at most.
const (
	maxShown   = 8   // lines of matches
	maxCounted = 999 // matches
	maxQuoted  = 120 // bytes of a line
	maxClosest = 3   // lines
)

var errMatches = vfs.Errorf(vfs.Limit, "old matches at more than %d places; make it longer, or write the whole file", MaxMatches)

// ambiguous is the error for an Old that matches more than once.
func ambiguous(h *haystack, e Edit) error {
	n, at, line := 0, 0, 1
	var shown []string
	for off := range h.found(e.Old) {
		if n++; n > maxCounted {
			break
		}
		if len(shown) == maxShown {
			continue
		}
		off = h.at(e.Old, off)
		line += bytes.Count(h.b[at:off], lf)
		at = off
		if number := fmt.Sprint(line); len(shown) == 0 || shown[len(shown)-1] != number {
			shown = append(shown, number)
		}
	}
	count, more := fmt.Sprint(n), ""
	if n > maxCounted {
		count = fmt.Sprintf("more than %d", maxCounted)
	}
	if n > len(shown) && len(shown) == maxShown {
		more = " and more"
	}
	return vfs.Errorf(vfs.Conflict, "old matches %s times, on lines %s%s; make it longer so that it matches once, or replace all", count, strings.Join(shown, ", "), more)
}

// missing is the error for an Old that does not match.
func missing(h *haystack, e Edit) error {
	return vfs.Errorf(vfs.Conflict, "old matches 0 times%s", reason(h, e))
}

// reason says what may be the matter, and which lines are the closest.
func reason(h *haystack, e Edit) string {
	if len(bytes.TrimSpace(e.New)) > 3 {
		for off := range h.found(e.New) {
			return fmt.Sprintf("; new is on line %d already, so the edit may have been made before", h.lineOf(h.at(e.New, off)))
		}
	}
	for _, f := range folds {
		if where, ok := f.in(h.b, e.Old); ok {
			return fmt.Sprintf("; %s: closest is line %d: %s", f.why, where.line, quote(where.text))
		}
	}
	all := closest(h.b, e.Old)
	if len(all) == 0 {
		return "; nothing like it is in the file; read the file again"
	}
	said := make([]string, len(all))
	for i, c := range all {
		said[i] = fmt.Sprintf("line %d: %s", c.line, quote(c.text))
	}
	return "; the closest to its " + ordinal(e.Old) + " are " + strings.Join(said, "; ") + "; read the file again"
}

// ordinal says which line of old the closest lines are like.
func ordinal(old []byte) string {
	key, at := keyLine(old)
	return fmt.Sprintf("line %d (%s)", at, quote(key))
}

// lineOf returns the number of the line of the offset at.
func (h *haystack) lineOf(at int) int { return 1 + bytes.Count(h.b[:at], lf) }

// quote returns a line as it can be shown.
func quote(line []byte) string {
	text, more := bytes.TrimRight(line, "\r\n"), ""
	if len(text) > maxQuoted {
		text, more = text[:maxQuoted], "…"
	}
	return fmt.Sprintf("%q%s", text, more)
}

// A fold leaves out a difference that people and models do not see.
type fold struct {
	why  string
	fold func(b []byte, keep func(c byte))
}

var folds = []fold{
	{"it differs in line endings alone; the file or old has a CR that the other has not", without("\r")},
	{"it differs in spaces, tabs or indentation", without("\r \t")},
	{"it differs in quotes or dashes; the file or old has curly quotes, long dashes or no-break spaces where the other has plain ones", plainly("")},
	{"it differs in spaces, tabs or indentation, and in quotes or dashes", plainly("\r \t")},
}

// without returns a fold that leaves out these bytes.
func without(these string) func([]byte, func(byte)) {
	return func(b []byte, keep func(byte)) {
		for _, c := range b {
			if strings.IndexByte(these, c) < 0 {
				keep(c)
			}
		}
	}
}

// plain is what stands for punctuation that looks alike. All of them are 3 bytes of UTF-8,
// besides the no-break space.
var plain = map[string]byte{"‘": '\'', "’": '\'', "‚": '\'', "‛": '\'', "“": '"', "”": '"', "„": '"', "‟": '"',
	"‐": '-', "‑": '-', "‒": '-', "–": '-', "—": '-', "―": '-', "−": '-', "\u2003": ' ', "\u2009": ' ', "\u202f": ' '}

// plainly is without, with plain punctuation.
func plainly(these string) func([]byte, func(byte)) {
	drop := without(these)
	return func(b []byte, keep func(byte)) {
		for i := 0; i < len(b); i++ {
			c := b[i]
			if c == 0xe2 && i+2 < len(b) {
				if p, ok := plain[string(b[i:i+3])]; ok {
					c = p
					i += 2
				}
			} else if c == 0xc2 && i+1 < len(b) && b[i+1] == 0xa0 {
				c = ' '
				i++
			}
			drop([]byte{c}, keep)
		}
	}
}

// numberedLine is a line of a content.
type numberedLine struct {
	line int
	text []byte
}

// in returns the line of b at which old is, apart from the difference.
func (f fold) in(b, old []byte) (numberedLine, bool) {
	var text []byte
	f.fold(old, func(c byte) { text = append(text, c) })
	text = bytes.Trim(text, "\n")
	if len(text) == 0 {
		return numberedLine{}, false
	}
	all := make([]byte, 0, len(b))
	f.fold(b, func(c byte) { all = append(all, c) })
	for off := range occurrences(all, text) {
		n := bytes.Count(all[:off], lf)
		return numberedLine{n + 1, nth(b, n)}, true
	}
	return numberedLine{}, false
}

// nth returns the line of b that has n lines before it.
func nth(b []byte, n int) []byte {
	at, _ := lineAt(b, 0, n)
	line, _, _ := bytes.Cut(b[at:], lf)
	return line
}

// keyLine returns the longest line of old, and which it is.
func keyLine(old []byte) (key []byte, at int) {
	n := 0
	for line := range bytes.Lines(old) {
		n++
		if line = bytes.TrimSpace(line); len(line) > len(key) {
			key, at = line, n
		}
		if n == 1000 {
			break
		}
	}
	return key, at
}

// closest returns the lines of b that are most like a line of old: those that share the most
// pairs of bytes with it. It takes time linear in the size of b.
func closest(b, old []byte) (best []numberedLine) {
	const least = 0.6 // of the pairs of both
	key, _ := keyLine(old)
	if key = key[:min(len(key), 1000)]; len(key) < 2 {
		return nil
	}
	var in [1 << 16 / 64]uint64
	pair := func(s []byte, i int) uint16 { return uint16(s[i])<<8 | uint16(s[i+1]) }
	for i := range len(key) - 1 {
		p := pair(key, i)
		in[p/64] |= 1 << (p % 64)
	}
	scores := make([]float64, 0, maxClosest+1)
	n := 0
	for line := range bytes.Lines(b) {
		n++
		text := bytes.TrimSpace(line)
		if len(text) < len(key)/2 || len(text) > 2*len(key)+8 {
			continue
		}
		shared := 0
		for i := range len(text) - 1 {
			if p := pair(text, i); in[p/64]&(1<<(p%64)) != 0 {
				shared++
			}
		}
		score := 2 * float64(min(shared, len(key)-1)) / float64(len(key)+len(text)-2)
		at := len(scores)
		for at > 0 && scores[at-1] < score {
			at--
		}
		if score < least || at == maxClosest {
			continue
		}
		scores = append(scores[:at], append([]float64{score}, scores[at:]...)...)
		best = append(best[:at], append([]numberedLine{{n, line}}, best[at:]...)...)
		if len(scores) > maxClosest {
			scores, best = scores[:maxClosest], best[:maxClosest]
		}
	}
	return best
}
