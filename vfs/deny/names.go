package deny

import (
	"slices"
	"strings"

	"capd/vfs/search"
)

// names is a set of patterns. Most patterns have the form **/NAME or **/NAME/**, with
// at most one * in NAME, and so depend on one name only. These are all matched against
// a name at once.
type names struct {
	whole   map[string]bool // true: with everything below
	affixes []affix
	ends    [256]uint8        // bytes with which a matching name may begin and end
	rest    []*search.Pattern // all other patterns
}

// Values of names.ends.
const (
	begins = 1 << iota
	ends
)

// affix is a name with one *.
type affix struct {
	before, after string
	below         bool // as in names.whole
}

// add parses a pattern. It answers invalid.
func (n *names) add(text string) error {
	p, err := search.Compile(text)
	if err != nil {
		return err
	}
	name, ok := strings.CutPrefix(text, "**/")
	name, below := strings.CutSuffix(name, "/**")
	before, after, star := strings.Cut(name, "*")
	switch {
	case !ok || name == "" || strings.ContainsAny(before+after, `/*?[\{}`):
		n.rest = append(n.rest, p)
	case star:
		n.affixes = append(n.affixes, affix{before, after, below})
		n.mayEnd(before, after)
	default:
		n.mayEnd(name, "")
		if n.whole == nil {
			n.whole = map[string]bool{}
		}
		n.whole[name] = n.whole[name] || below
	}
	return nil
}

// mayEnd notes that a name may begin with before or end with after. One of the two is
// enough.
func (n *names) mayEnd(before, after string) {
	switch {
	case before != "":
		n.ends[before[0]] |= begins
	case after != "":
		n.ends[after[len(after)-1]] |= ends
	default: // any name
		for i := range n.ends {
			n.ends[i] |= begins
		}
	}
}

// match reports whether a pattern of one name matches name, and whether it matches
// everything below too. The first and the last byte rule out most names.
func (n *names) match(name string) (hit, below bool) {
	if len(name) > 0 && n.ends[name[0]]&begins == 0 && n.ends[name[len(name)-1]]&ends == 0 {
		return false, false
	}
	below, hit = n.whole[name]
	for i := range n.affixes {
		a := &n.affixes[i]
		if len(name) >= len(a.before)+len(a.after) && strings.HasPrefix(name, a.before) && strings.HasSuffix(name, a.after) {
			hit, below = true, below || a.below
		}
	}
	return hit, below
}

// start returns the state of the other patterns before the first name.
func (n *names) start() []search.State {
	var s []search.State
	for _, p := range n.rest {
		s = append(s, p.Start())
	}
	return s
}

// step returns the state of the other patterns after one more name. It returns s itself
// where the state is the same.
func (n *names) step(s []search.State, name string) []search.State {
	next := s
	for i, p := range n.rest {
		to := p.Step(s[i], name)
		if slices.Equal(to, s[i]) {
			continue
		}
		if &next[0] == &s[0] {
			next = slices.Clone(s)
		}
		next[i] = to
	}
	return next
}

// matched reports whether one of the other patterns has matched.
func (n *names) matched(s []search.State) bool {
	for i, p := range n.rest {
		if p.Matched(s[i]) {
			return true
		}
	}
	return false
}
