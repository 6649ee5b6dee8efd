package edit

import (
	"bytes"
	"iter"
	"sort"
)

// headBytes is how much of a text is searched for at once. A search for so few bytes takes
// linear time whatever they are.
const headBytes = 31

// occurrences yields the offsets at which text is in b, also where occurrences overlap. It
// takes time linear in the size of b, whatever b and text are: it stops to compare where that
// did not help, and goes on as Knuth, Morris and Pratt do.
func occurrences(b, text []byte) iter.Seq[int] {
	return func(yield func(int) bool) {
		head, rest := text[:min(len(text), headBytes)], text[min(len(text), headBytes):]
		wasted := 0
		for at := 0; ; at++ {
			i := bytes.Index(b[at:], head)
			if i < 0 {
				return
			}
			at += i
			same := common(b[at+len(head):], rest)
			if same == len(rest) && !yield(at) {
				return
			}
			if wasted += same; wasted > 2*len(b) {
				linear(b, text, at+1, yield)
				return
			}
		}
	}
}

// common returns how many bytes at the beginning of a and b are the same.
func common(a, b []byte) int {
	const step = 64
	n, most := 0, min(len(a), len(b))
	for n+step <= most && bytes.Equal(a[n:n+step], b[n:n+step]) {
		n += step
	}
	for n < most && a[n] == b[n] {
		n++
	}
	return n
}

// linear is occurrences from the offset at on.
func linear(b, text []byte, at int, yield func(int) bool) {
	back := make([]int32, len(text)+1) // the longest border of each prefix
	back[0] = -1
	k := int32(-1)
	for i, c := range text {
		for k >= 0 && text[k] != c {
			k = back[k]
		}
		k++
		back[i+1] = k
	}
	k = 0
	for i := at; i < len(b); i++ {
		for k >= 0 && text[k] != b[i] {
			k = back[k]
		}
		if k++; int(k) == len(text) {
			if !yield(i + 1 - len(text)) {
				return
			}
			if k = back[k]; k < 0 {
				k = 0
			}
		}
	}
}

// A haystack is a content in which texts are searched with the tolerance for line endings.
type haystack struct {
	b     []byte
	crlf  bool
	plain []byte // b with LF in place of CRLF; nil until it is needed
	cut   []int  // the offsets in plain of what was CRLF
}

func newHaystack(b []byte) *haystack { return &haystack{b: b, crlf: bytes.Contains(b, crlf)} }

var crlf, lf = []byte("\r\n"), []byte("\n")

// tolerant reports whether text is searched in plain. A text with a CR before an LF means
// exactly these bytes.
func (h *haystack) tolerant(text []byte) bool {
	return h.crlf && bytes.IndexByte(text, '\n') >= 0 && !bytes.Contains(text, crlf) && text[len(text)-1] != '\r'
}

// found yields where text is in h, by offsets in the text in which it was searched; see at.
func (h *haystack) found(text []byte) iter.Seq[int] {
	if !h.tolerant(text) {
		return occurrences(h.b, text)
	}
	h.smooth()
	return occurrences(h.plain, text)
}

// at returns the offset in b of an offset that found yields for text, plus a part of text.
func (h *haystack) at(text []byte, off int) int {
	if !h.tolerant(text) {
		return off
	}
	return off + sort.SearchInts(h.cut, off)
}

// smooth makes plain.
func (h *haystack) smooth() {
	if h.plain != nil {
		return
	}
	h.plain = make([]byte, 0, len(h.b))
	for rest := h.b; ; {
		i := bytes.Index(rest, crlf)
		if i < 0 {
			h.plain = append(h.plain, rest...)
			return
		}
		h.plain = append(h.plain, rest[:i]...)
		h.cut = append(h.cut, len(h.plain))
		h.plain = append(h.plain, '\n')
		rest = rest[i+2:]
	}
}

// trim returns how many bytes old and new have in common at the beginning and at the end. A
// CRLF in one of them is never divided.
func trim(old, new []byte) (front, back int) {
	front = common(old, new)
	if splits(old, front) || splits(new, front) {
		front--
	}
	o, n := old[front:], new[front:]
	for back < len(o) && back < len(n) && o[len(o)-1-back] == n[len(n)-1-back] {
		back++
	}
	if back > 0 && (splits(old, len(old)-back) || splits(new, len(new)-back)) {
		back--
	}
	return front, back
}

// splits reports whether at lies within a CRLF of b.
func splits(b []byte, at int) bool {
	return at > 0 && at < len(b) && b[at-1] == '\r' && b[at] == '\n'
}

// matching returns what e replaces in content, and by what.
func matching(content []byte, e Edit) ([]place, error) {
	h := newHaystack(content)
	front, back := trim(e.Old, e.New)
	middle := e.New[front : len(e.New)-back]
	mixed := h.crlf && bytes.IndexByte(middle, '\n') >= 0
	var places []place
	endings := newEndings(content)
	next := 0 // matches before it overlap with the last one
	for off := range h.found(e.Old) {
		if e.All && off < next {
			continue
		}
		if !e.All && len(places) == 1 {
			return nil, ambiguous(h, e)
		}
		if len(places) == MaxMatches {
			return nil, errMatches
		}
		next = off + len(e.Old)
		p := place{h.at(e.Old, off+front), h.at(e.Old, off+len(e.Old)-back), middle}
		if mixed {
			p.text = withEnding(middle, endings.of(h.at(e.Old, off), p.from, h.at(e.Old, next)))
		}
		places = append(places, p)
	}
	if len(places) == 0 {
		return nil, missing(h, e)
	}
	return places, nil
}

// withEnding returns text with ending in place of each LF that has no CR before it.
func withEnding(text, ending []byte) []byte {
	if len(ending) == 1 {
		return text
	}
	out := make([]byte, 0, len(text)+bytes.Count(text, lf))
	for i, c := range text {
		if c == '\n' && (i == 0 || text[i-1] != '\r') {
			out = append(out, '\r')
		}
		out = append(out, c)
	}
	return out
}

// endings finds line endings in b at places that ascend.
type endings struct {
	b    []byte
	next int // the first LF from done on; past the end of b if there is none
	last int // the last LF before done, if next is past the end
	done int
}

func newEndings(b []byte) *endings { return &endings{b: b, next: -1, last: -1} }

// of returns the line ending at the place from, in the match from first to end: that of a
// line in the match, or of the line that it is in, or else that of a line before.
func (e *endings) of(first, from, end int) []byte {
	if i := bytes.IndexByte(e.b[from:end], '\n'); i >= 0 {
		return e.ending(from + i)
	}
	if i := bytes.LastIndexByte(e.b[first:from], '\n'); i >= 0 {
		return e.ending(first + i)
	}
	if e.next < end {
		if i := bytes.LastIndexByte(e.b[e.done:end], '\n'); i >= 0 {
			e.last = e.done + i
		}
		e.next, e.done = len(e.b), end
		if i := bytes.IndexByte(e.b[end:], '\n'); i >= 0 {
			e.next = end + i
		}
	}
	switch {
	case e.next < len(e.b):
		return e.ending(e.next)
	case e.last >= 0:
		return e.ending(e.last)
	}
	return lf
}

// ending returns the line ending of which the LF is at i.
func (e *endings) ending(i int) []byte {
	if i > 0 && e.b[i-1] == '\r' {
		return crlf
	}
	return lf
}
