// Package pattern matches many patterns against a path together, a name at a time.
package pattern

import (
	"slices"
	"strings"

	"capd/vfs/search"
)

// Set is patterns that are matched together. A walk through a tree keeps an [At] for each
// directory, so each name of a path is matched once, however long the path is. The patterns
// have the syntax of [search.Pattern]. One that ends in /** also matches the directory
// itself. Safe for concurrent use.
type Set struct {
	size        int
	raw, folded names
	single      []bool // by pattern: it depends on one name only
	alike       bool   // both are equal, so one match is enough where a name equals its folded form

	start *At
	none  *At // nothing matches, and no pattern of several names can match below
}

// Compile parses patterns, which are numbered from 0. Each is matched against the path as it
// is, and again with case and compatible characters folded on both sides, as some file
// systems do. The patterns in exact, which follow in the numbering, are matched against the
// path as it is alone. Compile answers invalid.
func Compile(patterns, exact []string) (*Set, error) {
	s := &Set{size: len(patterns) + len(exact), alike: len(exact) == 0}
	for i, text := range slices.Concat(patterns, exact) {
		if err := s.add(i, text, i >= len(patterns)); err != nil {
			return nil, err
		}
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

func (s *Set) add(i int, text string, exact bool) error {
	one, err := s.raw.add(i, text)
	if folds := fold(text); err == nil && !exact {
		s.alike = s.alike && folds == text
		var too bool
		too, err = s.folded.add(i, folds)
		one = one || too
	}
	s.single = append(s.single, one)
	return err
}

// Check returns the error with which [Compile] refuses a pattern.
func Check(text string) error {
	if _, err := search.Compile(text); err != nil {
		return err
	}
	_, err := search.Compile(fold(text))
	return err
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
