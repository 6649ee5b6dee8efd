package deny

import (
	"slices"
	"strings"

	"capd/vfs"
)

// names are patterns. Most look at one name wherever it stands, **/NAME and **/NAME/**
// with at most one * in NAME: these are held against a name all at once, and what came
// before it does not matter.
type names struct {
	whole   map[string]bool // true: with all below
	affixes []affix
	ends    [256]uint8     // which bytes a name that one of these matches may begin and end with
	rest    []*vfs.Pattern // all others
}

// What names.ends says of a byte.
const (
	begins = 1 << iota
	ends
)

// affix is a name with one *.
type affix struct {
	before, after string
	below         bool // as in names.whole
}

// add reads a pattern. It answers invalid.
func (n *names) add(text string) error {
	p, err := vfs.Compile(text)
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

// mayEnd notes that a name may begin or end so. One of the two will do.
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

// match reports whether a pattern of one name covers name, and all below it too. Most
// names are told from all that are covered by their first byte and their last.
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

// start is how far the rest has matched before the first name.
func (n *names) start() []vfs.State {
	var s []vfs.State
	for _, p := range n.rest {
		s = append(s, p.Start())
	}
	return s
}

// step is how far the rest has matched after one more name. It answers s itself where
// that is as far.
func (n *names) step(s []vfs.State, name string) []vfs.State {
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

// matched reports whether one of the rest has matched.
func (n *names) matched(s []vfs.State) bool {
	for i, p := range n.rest {
		if p.Matched(s[i]) {
			return true
		}
	}
	return false
}
