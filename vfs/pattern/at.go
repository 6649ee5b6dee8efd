package pattern

import (
	"slices"

	"capd/vfs/search"
)

// At is how far the patterns of a [Set] have matched at one path. What they match below
// depends on nothing else. An At never changes. Safe for concurrent use.
type At struct {
	set   *Set
	hit   bits // the patterns that match here
	below bits // those patterns of one name that match everything below, too

	others others
	plain  bool // what matches below depends on the names there alone

	room [4]uint64 // what hit and below lie in, in a Set of at most 128 patterns
}

// others is how far those patterns have matched that depend on more than one name. A pattern
// that can match nothing below is left out.
type others struct {
	folded []live
	raw    []live // as they are; nil where that equals folded
	apart  bool   // raw counts
}

// live is how far one pattern has matched.
type live struct {
	index int32 // in names.rest
	state search.State
}

func same(a, b []live) bool {
	return slices.EqualFunc(a, b, func(l, m live) bool { return l.index == m.index && slices.Equal(l.state, m.state) })
}

// make returns a new At. It copies hit and below.
func (s *Set) make(hit, below bits, o others) *At {
	a := &At{set: s, others: o, plain: !below.any() && len(o.folded)+len(o.raw) == 0}
	a.hit, a.below = s.bits(a.room[:])
	copy(a.hit, hit)
	copy(a.below, below)
	return a
}

// bits returns two empty sets of patterns, in room if they fit.
func (s *Set) bits(room []uint64) (one, two bits) {
	words := (s.size + 63) / 64
	if 2*words > len(room) {
		room = make([]uint64, 2*words)
	}
	return room[:words], room[words : 2*words]
}

// Matches reports whether pattern i matches the path.
func (a *At) Matches(i int) bool { return a.hit[i/64]&(1<<(i%64)) != 0 }

// Any reports whether any pattern matches the path.
func (a *At) Any() bool { return a.hit.any() }

// All reports whether some pattern matches the path and everything below it. It may report
// false for a pattern with such a match.
func (a *At) All() bool { return a.below.any() }

// Hits returns the patterns that match the path, as a set of bits: pattern 0 is the lowest bit
// of the first word. The caller must not change it.
func (a *At) Hits() []uint64 { return a.hit }

// May reports whether pattern i may match something below the path.
func (a *At) May(i int) bool {
	s := a.set
	return s.single[i] || s.folded.alive(a.others.folded, i) || s.raw.alive(a.others.raw, i)
}

// Same reports whether the patterns match the same names below a as below to, an At of the
// same Set.
func (a *At) Same(to *At) bool { return a == to || a.set == to.set && a.equal(to) }

func (a *At) equal(b *At) bool { return a.is(b.hit, b.below, b.others) }

func (a *At) is(hit, below bits, o others) bool {
	return slices.Equal(a.hit, hit) && slices.Equal(a.below, below) && a.others.apart == o.apart &&
		same(a.others.folded, o.folded) && same(a.others.raw, o.raw)
}

// Step returns the At of the path with name added. It returns a itself, or Start's, where that
// is the same, and allocates nothing then. It folds the name once.
func (a *At) Step(name string) *At {
	s := a.set
	folded := foldName(name)
	if a.plain && !s.folded.may(folded) && ((s.alike && folded == name) || !s.raw.may(name)) {
		return s.none
	}
	var room [4]uint64
	hit, below := s.bits(room[:])
	copy(below, a.below)
	s.folded.match(folded, hit, below)
	if !s.alike || folded != name {
		s.raw.match(name, hit, below)
	}
	o := s.step(a.others, name, folded, hit)
	hit.add(below)
	if a.is(hit, below, o) {
		return a
	}
	return s.known(hit, below, o)
}

// step returns the others after one more name. It adds those that match there to hit.
func (s *Set) step(o others, name, folded string, hit bits) (next others) {
	next.folded = s.folded.step(o.folded, folded, hit)
	switch {
	case o.apart:
		next.raw = s.raw.step(o.raw, name, hit)
	case folded != name:
		next.raw = s.raw.step(o.folded, name, hit)
	default:
		return next
	}
	if next.apart = !s.alike || !same(next.raw, next.folded); !next.apart {
		next.raw = nil
	}
	return next
}

// known returns one of the two Ats that a Set has from the beginning, if it is the same, or
// a new one.
func (s *Set) known(hit, below bits, o others) *At {
	for _, a := range [...]*At{s.start, s.none} {
		if a != nil && a.is(hit, below, o) {
			return a
		}
	}
	return s.make(hit, below, o)
}

// bits is a set of patterns.
type bits []uint64

func (b bits) set(i int32) { b[i/64] |= 1 << (i % 64) }

func (b bits) add(more bits) {
	for i := range b {
		b[i] |= more[i]
	}
}

func (b bits) any() bool {
	for _, word := range b {
		if word != 0 {
			return true
		}
	}
	return false
}
