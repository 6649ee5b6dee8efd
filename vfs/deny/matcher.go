package deny

import (
	"slices"

	"capd/vfs/membrane"
	"capd/vfs/search"
)

// Matcher returns a matcher, at the root, of the paths that r matches.
func (r *Rules) Matcher() membrane.Matcher { return r.start }

// state is how far the patterns have matched at a path. What they match below depends
// on nothing else.
type state struct {
	rules  *Rules
	hit    bool           // a pattern of one name matches the path
	folded []search.State // of the other patterns, folded
	raw    []search.State // of the other patterns, as they are; nil where that equals folded
}

// Matched implements [membrane.Matcher].
func (s *state) Matched() bool {
	r := s.rules
	return s.hit || s != r.all && (r.folded.matched(s.folded) || s.raw != nil && r.raw.matched(s.raw))
}

// Step implements [membrane.Matcher]. It folds each name once.
func (s *state) Step(name string) membrane.Matcher {
	r := s.rules
	if s == r.all {
		return s
	}
	folded := foldName(name)
	hit, below := r.folded.match(folded)
	if !r.alike || folded != name {
		rawHit, rawBelow := r.raw.match(name)
		hit, below = hit || rawHit, below || rawBelow
	}
	if below {
		return r.all
	}
	return s.to(state{rules: r, hit: hit, folded: r.folded.step(s.folded, folded), raw: s.stepRaw(name, folded)})
}

// stepRaw returns the raw state after name; nil where it equals the folded one.
func (s *state) stepRaw(name, folded string) []search.State {
	r := s.rules
	switch {
	case s.raw != nil:
		return r.raw.step(s.raw, name)
	case r.alike && folded != name:
		return r.raw.step(s.folded, name)
	}
	return nil
}

// to returns next, or an equal state that exists already.
func (s *state) to(next state) *state {
	for _, known := range []*state{s, s.rules.start} {
		if known.equal(&next) {
			return known
		}
	}
	kept := next
	return &kept
}

func (s *state) equal(t *state) bool {
	return s.hit == t.hit && slices.EqualFunc(s.folded, t.folded, slices.Equal) && slices.EqualFunc(s.asIs(), t.asIs(), slices.Equal)
}

// asIs returns how far the other patterns have matched unfolded.
func (s *state) asIs() []search.State {
	if s.raw == nil {
		return s.folded
	}
	return s.raw
}

// Same implements [membrane.Matcher].
func (s *state) Same(to membrane.Matcher) bool {
	t, ok := to.(*state)
	return ok && (s == t || s != s.rules.all && t != s.rules.all && s.equal(t))
}
