package pattern

import (
	"slices"
	"strings"

	"capd/vfs/search"
)

// names is a set of patterns. Most patterns have the form **/NAME or **/NAME/**, with
// at most one * in NAME, and so depend on one name only. These are all matched against
// a name at once.
type names struct {
	whole   map[string][]single
	affixes []affix
	ends    [256]uint8 // bytes with which a matching name may begin and end
	rest    []other
}

// Values of names.ends.
const (
	begins = 1 << iota
	ends
)

// single is a pattern that depends on one name.
type single struct {
	index int32
	below bool // it also matches everything below
}

// affix is a name with one *.
type affix struct {
	before, after string
	single
}

// other is any other pattern.
type other struct {
	index int32
	*search.Pattern
}

// add parses pattern i, and reports whether it depends on one name only. It answers
// invalid.
func (n *names) add(i int, text string) (one bool, err error) {
	p, err := search.Compile(text)
	if err != nil {
		return false, err
	}
	name, ok := strings.CutPrefix(text, "**/")
	name, below := strings.CutSuffix(name, "/**")
	before, after, star := strings.Cut(name, "*")
	is := single{int32(i), below}
	switch {
	case !ok || name == "" || strings.ContainsAny(before+after, `/*?[\{}`):
		n.rest = append(n.rest, other{int32(i), p})
		return false, nil
	case star:
		n.affixes = append(n.affixes, affix{before, after, is})
		n.mayEnd(before, after)
	default:
		n.mayEnd(name, "")
		if n.whole == nil {
			n.whole = map[string][]single{}
		}
		n.whole[name] = append(n.whole[name], is)
	}
	return true, nil
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

// may reports whether a pattern of one name may match name. The first and the last byte
// rule out most names.
func (n *names) may(name string) bool {
	return len(name) == 0 || n.ends[name[0]]&begins != 0 || n.ends[name[len(name)-1]]&ends != 0
}

// match adds the patterns of one name that match name to hit, and those that match
// everything below to below.
func (n *names) match(name string, hit, below bits) {
	if !n.may(name) {
		return
	}
	for _, s := range n.whole[name] {
		s.matched(hit, below)
	}
	for i := range n.affixes {
		a := &n.affixes[i]
		if len(name) >= len(a.before)+len(a.after) && strings.HasPrefix(name, a.before) && strings.HasSuffix(name, a.after) {
			a.matched(hit, below)
		}
	}
}

func (s single) matched(hit, below bits) {
	hit.set(s.index)
	if s.below {
		below.set(s.index)
	}
}

// alive reports whether pattern i is among those that can still match.
func (n *names) alive(can []live, i int) bool {
	return slices.ContainsFunc(can, func(l live) bool { return n.rest[l.index].index == int32(i) })
}

// start returns the other patterns before the first name. It adds those that match
// there to hit.
func (n *names) start(hit bits) []live {
	var all []live
	for i, p := range n.rest {
		p.note(p.Start(), hit)
		all = append(all, live{int32(i), p.Start()})
	}
	return all
}

// step returns the other patterns that can match after one more name, given those that
// could before it. It returns from itself where they are the same. It adds those that
// match there to hit.
func (n *names) step(from []live, name string, hit bits) []live {
	var (
		memory [16]int32 // enough for most states
		next   []live
		copied bool
	)
	for i, l := range from {
		p := n.rest[l.index]
		state := p.AppendStep(memory[:0], l.state, name)
		p.note(state, hit)
		same := slices.Equal(state, l.state)
		if !same && !copied {
			next, copied = append(next, from[:i]...), true
		}
		switch {
		case !copied || len(state) == 0:
		case same:
			next = append(next, l)
		default:
			next = append(next, live{l.index, slices.Clone(state)})
		}
	}
	if !copied {
		return from
	}
	return next
}

// note adds the pattern to hit if it has matched in state.
func (p other) note(state search.State, hit bits) {
	if p.Matched(state) {
		hit.set(p.index)
	}
}
