package edit

import (
	"bytes"

	"capd/vfs"
)

// A span is a part of the content before all edits, and what took its place.
type span struct {
	a0, a1 int // before
	b0, b1 int // now
}

// compose returns the spans after the places of one edit were replaced. Both ascend, and are
// in the content before that edit.
func compose(spans []span, places []place) []span {
	out := make([]span, 0, len(spans)+len(places))
	back, ahead := 0, 0 // what to add to an offset to find it in the content before all edits, and after this one
	for len(spans) > 0 || len(places) > 0 {
		from := 0
		if len(places) == 0 || len(spans) > 0 && spans[0].b0 <= places[0].from {
			from = spans[0].b0
		} else {
			from = places[0].from
		}
		to, a0, b0 := from, from+back, from+ahead
		for {
			if len(spans) > 0 && spans[0].b0 <= to {
				s := spans[0]
				back += (s.a1 - s.a0) - (s.b1 - s.b0)
				to, spans = max(to, s.b1), spans[1:]
			} else if len(places) > 0 && places[0].from <= to {
				p := places[0]
				ahead += len(p.text) - (p.to - p.from)
				to, places = max(to, p.to), places[1:]
			} else {
				break
			}
		}
		out = append(out, span{a0, to + back, b0, to + ahead})
	}
	return out
}

// byLines returns what e, an edit by lines, replaces.
func (r *Result) byLines(e Edit) ([]place, error) {
	first, count := e.Lines.First, e.Lines.Count
	from, ok := lineAt(r.old, 0, first-1)
	if first < 1 || count < 0 || !ok {
		return nil, r.noLine(first)
	}
	to, ok := lineAt(r.old, from, count)
	if !ok || count > 0 && from == len(r.old) {
		return nil, r.noLine(first + count - 1)
	}
	moved := 0
	for _, s := range r.spans {
		if s.a1 > from && s.a0 < to || s.a0 < from && s.a1 > from {
			return nil, vfs.Errorf(vfs.Invalid, "an edit before it changes some of these lines already; make the two one edit")
		}
		if s.a1 <= from {
			moved += (s.b1 - s.b0) - (s.a1 - s.a0)
		}
	}
	text := r.lineText(from, to, e.New)
	p := place{from + moved, to + moved, text}
	was := r.Content[p.from:p.to]
	if front, back := trim(was, text); front+back > 0 && !bytes.Equal(was, text) {
		p = place{p.from + front, p.to - back, text[front : len(text)-back]}
	}
	return []place{p}, nil
}

// lineText returns what takes the place of the whole lines in r.old from from to to.
func (r *Result) lineText(from, to int, text []byte) []byte {
	if len(text) == 0 || len(r.old) == 0 {
		return text
	}
	ending := newEndings(r.old).of(from, from, to)
	body := bytes.TrimSuffix(text, lf)
	if len(body) < len(text) {
		body = bytes.TrimSuffix(body, []byte{'\r'})
	}
	body = withEnding(body, ending)
	switch last := r.old[len(r.old)-1]; {
	case to > from && r.old[to-1] != '\n': // the last line, which has no ending
		return body
	case to == from && to == len(r.old) && last != '\n': // after such a line
		return append(bytes.Clone(ending), body...)
	case to > from: // that of the last of them
		ending = newEndings(r.old).ending(to - 1)
	}
	return append(bytes.Clone(body), ending...)
}

func (r *Result) noLine(n int) error {
	return vfs.Errorf(vfs.Invalid, "there is no line %d; the file has %d", n, countLines(r.old))
}

// lineAt returns the offset at which the line begins that is n lines after the one at from.
// The end of b is where the line after the last would begin.
func lineAt(b []byte, from, n int) (at int, ok bool) {
	for at = from; n > 0; n-- {
		i := bytes.IndexByte(b[at:], '\n')
		if i < 0 {
			return len(b), n == 1 && at < len(b)
		}
		at += i + 1
	}
	return at, n == 0
}

// countLines returns how many lines b has.
func countLines(b []byte) int {
	n := bytes.Count(b, lf)
	if len(b) > 0 && b[len(b)-1] != '\n' {
		n++
	}
	return n
}

// A region is some whole lines of the content before all edits, and what took their place.
type region struct {
	a0, a1 int // offsets before
	b0, b1 int // offsets now
}

// regions returns the lines that the spans touch. Each line is looked through once, however many
// spans are in it.
func (r *Result) regions() (all []region) {
	done := 0 // where a line of r.old begins; all before it is looked through
	for _, s := range r.spans {
		g := region(s)
		if g.a0 > done {
			i := done + bytes.LastIndexByte(r.old[done:g.a0], '\n') + 1
			g.b0 -= g.a0 - i
			g.a0 = i
		}
		if g.a1 < done {
			g.b1 += done - g.a1
			g.a1 = done
		} else if !begins(r.old, g.a1) || !begins(r.Content, g.b1) {
			n := len(r.old) - g.a1
			if i := bytes.IndexByte(r.old[g.a1:], '\n'); i >= 0 {
				n = i + 1
			}
			g.a1 += n
			g.b1 += n
		}
		done = g.a1
		if last := len(all) - 1; last >= 0 && g.a0 <= all[last].a1 {
			all[last].a1, all[last].b1 = g.a1, g.b1
			continue
		}
		all = append(all, g)
	}
	return all
}

// begins reports whether a line of b begins at at, or would after the last line.
func begins(b []byte, at int) bool { return at == 0 || at == len(b) || b[at-1] == '\n' }

// ranges returns the lines of r.Content that were changed.
func (r *Result) ranges() (all []Range) {
	at, line := 0, 1
	for _, g := range r.regions() {
		line += bytes.Count(r.Content[at:g.b0], lf)
		n := countLines(r.Content[g.b0:g.b1])
		all = append(all, Range{line, n})
		line += bytes.Count(r.Content[g.b0:g.b1], lf)
		at = g.b1
	}
	return all
}
