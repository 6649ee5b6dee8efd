package grep

import (
	"bytes"
)

// searcher finds the lines of texts that match a pattern. It is used by one goroutine at a
// time.
type searcher struct {
	p     *Pattern
	dfa   *dfa
	ahead []int // by literal of p.finder: where it is next in the text, or below 0; for the text last begun
}

func newSearcher(p *Pattern) *searcher {
	return &searcher{p: p, dfa: newDFA(p), ahead: make([]int, len(p.finder))}
}

// found is a line in a text: where it begins and ends, without LF, and a place in it near
// the match.
type found struct{ from, to, near int }

// begin says that the next text comes.
func (s *searcher) begin() { clear(s.ahead) }

// next returns the first line of b, from the index at on, that matches. A line begins at
// at. Between two calls of begin, b is the same and at does not fall.
func (s *searcher) next(b []byte, at int) (line found, ok bool) {
	if len(s.p.finder) == 0 || s.p.always {
		if at < len(b) {
			if near := s.dfa.find(b[at:]); near >= 0 {
				return lineAt(b, at, at+near), true
			}
		}
		return found{}, false
	}
	for at < len(b) {
		near := s.candidate(b, at)
		if near < 0 {
			break
		}
		line := lineAt(b, at, near)
		if s.p.exact || s.dfa.match(b[line.from:line.to]) {
			return line, true
		}
		at = line.to + 1
	}
	return found{}, false
}

// candidate returns the index of the next place, from at on, where one of the texts may be
// that every match holds, or -1.
func (s *searcher) candidate(b []byte, at int) int {
	first := -1
	for i := range s.p.finder {
		if s.ahead[i] >= 0 && s.ahead[i] <= at {
			if s.ahead[i] = s.p.finder[i].index(b[at:]); s.ahead[i] >= 0 {
				s.ahead[i] += at
			}
		}
		if s.ahead[i] >= 0 && (first < 0 || s.ahead[i] < first) {
			first = s.ahead[i]
		}
	}
	return first
}

// lineAt returns the line of b that holds the place near. It begins at from or later.
func lineAt(b []byte, from, near int) found {
	line := found{from: from + bytes.LastIndexByte(b[from:near], '\n') + 1, to: len(b), near: near}
	if i := bytes.IndexByte(b[near:], '\n'); i >= 0 {
		line.to = near + i
	}
	return line
}
