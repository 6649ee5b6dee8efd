// Package pattern matches many patterns against a path together, a name at a time.
package pattern

import (
	"strings"
)

// Set is patterns that are matched together. A walk through a tree keeps an [At] for each
// directory, so each name of a path is matched once, however long the path is. The patterns
// have the syntax of package search. One that ends in /** also matches the directory
// itself. Safe for concurrent use.
type Set struct {
	size        int
	raw, folded names
	alike       bool // both are equal, so one match is enough where a name equals its folded form

	start *At
	none  *At // nothing matches, and no pattern of several names can match below
}

// Compile parses patterns, which are numbered from 0. Each is matched against the path as it
// is, and again with case and compatible characters folded on both sides, as some file
// systems do. It answers invalid.
func Compile(patterns ...string) (*Set, error) {
	s := &Set{size: len(patterns), alike: true}
	for i, text := range patterns {
		if err := s.raw.add(i, text); err != nil {
			return nil, err
		}
		if err := s.folded.add(i, fold(text)); err != nil {
			return nil, err
		}
		s.alike = s.alike && fold(text) == text
	}
	hit, below := s.bits(nil)
	o := others{folded: s.folded.start(hit), apart: !s.alike}
	if o.apart {
		o.raw = s.raw.start(hit)
	}
	s.start = s.make(hit, below, o)
	s.none = s.known(bits(make([]uint64, len(hit))), below, others{apart: o.apart})
	return s, nil
}

// Start returns where s stands before the first name.
func (s *Set) Start() *At { return s.start }

// At returns where s stands after path. "" is the path before the first name.
func (s *Set) At(path string) *At {
	a := s.start
	for path != "" {
		var name string
		name, path, _ = strings.Cut(path, "/")
		a = a.Step(name)
	}
	return a
}
