package jsonfile

import (
	"bytes"
	"slices"
)

// What is added looks like what is beside it. These say how that looks.

// separator returns what goes between the last member of s.in and one that is added: a comma,
// with the space and the line that separate the last two members.
func (s *search) separator() []byte {
	c := s.in
	gap := s.body[c.last.lead:c.last.start]
	if c.count == 1 {
		if !hasLine(gap) {
			gap = nil
			if s.spaced() {
				gap = []byte(" ")
			}
		}
		return append([]byte(","), oneLine(gap)...)
	}
	before, after, _ := bytes.Cut(gap, []byte(","))
	if !hasLine(before) { // a comma that begins a line belongs to the style, space before one does not
		before = nil
	}
	return slices.Concat(before, []byte(","), oneLine(after))
}

// oneLine returns space without blank lines.
func oneLine(space []byte) []byte {
	if bytes.Count(space, []byte("\n")) < 2 {
		return space
	}
	return fromLine(space)
}

// fromLine returns space from the end of its last line on.
func fromLine(space []byte) []byte {
	at := bytes.LastIndexByte(space, '\n')
	if at > 0 && space[at-1] == '\r' {
		at--
	}
	return space[at:]
}

func hasLine(space []byte) bool { return bytes.IndexByte(space, '\n') >= 0 }

// colon returns what goes between a name and its value: what is there in the last member of s.in,
// or of the nearest object around it.
func (s *search) colon() []byte {
	if c := s.in; !c.array && c.count > 0 {
		return s.colonOf(c.last)
	}
	for i := len(s.way) - 1; i >= 0; i-- {
		if c := s.way[i]; !c.array && c.hits > 0 {
			return s.colonOf(c.hit)
		}
	}
	return []byte(": ")
}

func (s *search) colonOf(m member) []byte { return s.body[m.nameEnd:m.value.start] }

// spaced reports whether values are separated by space.
func (s *search) spaced() bool { return !bytes.HasSuffix(s.colon(), []byte(":")) }

// indents returns what goes before and after the only member of s.in, which is empty. If s.in
// begins on a line of its own in the container around it, so does the member, and it is
// indented by one step more.
func (s *search) indents() (before, after []byte) {
	inside := s.body[s.in.open:s.in.end]
	if hasLine(inside) {
		return append(bytes.Clone(fromLine(inside)), s.step()...), nil
	}
	line := s.line()
	if len(inside) > 0 || line == nil {
		return inside, nil
	}
	return append(bytes.Clone(line), s.step()...), line
}

// line returns the end of a line and the indentation with which s.in begins in the container
// around it; nil if it begins on the line of what is before it.
func (s *search) line() []byte {
	if len(s.way) < 2 {
		return nil
	}
	outer := s.way[len(s.way)-2]
	lead := s.body[outer.hit.lead:outer.hit.start]
	if !hasLine(lead) {
		return nil
	}
	return bytes.ReplaceAll(fromLine(lead), []byte(","), []byte(" ")) // a comma may begin the line
}

// step returns by how much the members of a container are indented further than its end, as it
// is around s.in.
func (s *search) step() []byte {
	if line := s.line(); line != nil {
		outer := s.way[len(s.way)-2]
		if end := s.body[outer.last.value.end:outer.end]; hasLine(end) {
			if more, ok := bytes.CutPrefix(line, fromLine(end)); ok {
				return more
			}
		}
	}
	return []byte("  ")
}
