package deny

import (
	"slices"

	"capd/vfs"
)

// Matcher returns what matches, from the root, the paths that r covers.
func (r *Rules) Matcher() vfs.Matcher { return r.start }

// state is how far the patterns have matched at a path: what they cover below depends
// on nothing else.
type state struct {
	rules  *Rules
	hit    bool        // a pattern of one name covers the path
	folded []vfs.State // of the rest, as far as all is made alike
	raw    []vfs.State // and of the rest as it is; nil where that is folded too
}

// Matched implements [vfs.Matcher].
func (s *state) Matched() bool {
	r := s.rules
	return s.hit || s != r.all && (r.folded.matched(s.folded) || s.raw != nil && r.raw.matched(s.raw))
}

// Step implements [vfs.Matcher]. Each name is made alike once, here.
func (s *state) Step(name string) vfs.Matcher {
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

// stepRaw is the raw state after a name; nil where it is the folded one.
func (s *state) stepRaw(name, folded string) []vfs.State {
	r := s.rules
	switch {
	case s.raw != nil:
		return r.raw.step(s.raw, name)
	case r.alike && folded != name:
		return r.raw.step(s.folded, name)
	}
	return nil
}

// to returns next, or a state that is there already and says the same.
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

// asIs is how far the rest has matched as it is.
func (s *state) asIs() []vfs.State {
	if s.raw == nil {
		return s.folded
	}
	return s.raw
}

// Same implements [vfs.Matcher].
func (s *state) Same(to vfs.Matcher) bool {
	t, ok := to.(*state)
	return ok && (s == t || s != s.rules.all && t != s.rules.all && s.equal(t))
}
