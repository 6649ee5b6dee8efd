package search

import (
	"path"
	"slices"
	"strings"

	"capd/vfs"
)

// maxAlternatives is how many plain patterns the braces of one pattern may stand for.
const maxAlternatives = 64

// maxSegments is how many names these may have together. Equal ones count once.
const maxSegments = 1024

// Pattern matches paths, name by name. In a name * stands for any characters, ? for one
// character, [a-z] for one in a set, and [^a-z] or [!a-z] for one outside a set. A
// backslash makes the next character literal. A name ** stands for any number of names,
// including none. {a,b} stands for a or b; it may contain "/" and may nest. Matching
// takes time linear in the path for every pattern.
type Pattern struct {
	segs []segment // the alternatives one after the other; the last segment of each has end set
	from State

	noHidden bool // see NoHidden
}

type segment struct {
	any     bool   // **
	end     bool   // everything before it has matched
	literal bool   // text is a plain name
	affix   bool   // text is before*after, both plain
	stars   bool   // text holds a *
	dotted  bool   // text begins with a dot
	text    string // in the syntax of path.Match

	before, after string
}

// State is how far a Pattern has matched: the segments that may match next, in order.
type State []int32

// Compile parses a pattern. It answers invalid for a pattern that is empty, has a
// leading "/", an empty name, "." or "..", or an open bracket or brace. It also answers
// invalid when the braces stand for more than 64 patterns, or for patterns that have more
// than 1024 names together.
func Compile(pattern string) (*Pattern, error) {
	if err := vfs.CheckPathSize(pattern); err != nil {
		return nil, err
	}
	alts, _, err := expand(pattern)
	if err != nil {
		return nil, err
	}
	p := &Pattern{}
	var starts []int32
	seen := map[string]bool{}
	for _, alt := range alts {
		if seen[alt] {
			continue
		}
		seen[alt] = true
		starts = append(starts, int32(len(p.segs)))
		if alt == "" || alt[0] == '/' {
			return nil, vfs.Errorf(vfs.Invalid, "a pattern is not empty and starts at this Dir, never with \"/\"")
		}
		for text := range strings.SplitSeq(alt, "/") {
			s, err := compileName(text)
			if err != nil {
				return nil, err
			}
			if n := len(p.segs); s.any && n > 0 && p.segs[n-1].any {
				continue // **/** means the same as **
			}
			p.segs = append(p.segs, s)
			if len(p.segs)-len(starts)+1 > maxSegments {
				return nil, vfs.Errorf(vfs.Invalid, "the braces of a pattern stand for patterns of more than %d names together", maxSegments)
			}
		}
		p.segs = append(p.segs, segment{end: true})
	}
	for _, at := range starts {
		p.from = p.reach(p.from, at)
	}
	return p, nil
}

func compileName(text string) (segment, error) {
	switch text {
	case "", ".", "..":
		return segment{}, vfs.Errorf(vfs.Invalid, "a pattern holds an empty name, \".\" or \"..\"")
	case "**":
		return segment{any: true}, nil
	}
	text = carets(text)
	if _, err := path.Match(text, "x"); err != nil {
		return segment{}, vfs.Errorf(vfs.Invalid, "a pattern holds an open \"[\" or ends in a backslash")
	}
	s := segment{text: text, dotted: text[0] == '.' || strings.HasPrefix(text, `\.`), literal: !strings.ContainsAny(text, `*?[\`), stars: strings.Contains(text, "*")}
	if before, after, ok := strings.Cut(text, "*"); ok && !strings.ContainsAny(before+after, `*?[\`) {
		s.affix, s.before, s.after = true, before, after
	}
	return s, nil
}

// carets writes a set that begins with ! in the syntax of path.Match, with ^.
func carets(text string) string {
	b := []byte(text)
	set := false
	for i := 0; i < len(b); i++ {
		switch {
		case b[i] == '\\':
			i++
		case set:
			set = b[i] != ']'
		case b[i] == '[':
			set = true
			if i+1 < len(b) && b[i+1] == '!' {
				b[i+1] = '^'
			}
		}
	}
	return string(b)
}

func (s *segment) match(name string) bool {
	switch {
	case s.literal:
		return s.text == name
	case s.affix:
		return len(name) >= len(s.before)+len(s.after) && strings.HasPrefix(name, s.before) && strings.HasSuffix(name, s.after)
	}
	ok, _ := path.Match(s.text, name)
	return ok
}

// NoHidden returns p without hidden names, as in a shell: a wildcard does not match a dot at
// the start of a name.
func (p *Pattern) NoHidden() *Pattern { return &Pattern{p.segs, p.from, true} }

// Start returns the state before the first name.
func (p *Pattern) Start() State { return p.from }

// Step returns the state after one more name. An empty state can never match.
func (p *Pattern) Step(s State, name string) State {
	next, _ := p.stepTo(nil, s, name)
	return next
}

// AppendStep appends to next, which must be empty, what Step returns.
func (p *Pattern) AppendStep(next, s State, name string) State {
	next, _ = p.stepTo(next, s, name)
	return next
}

// stepTo is Step into the memory of next, which must be empty. It also returns about how
// many bytes it compared, at most.
func (p *Pattern) stepTo(next, s State, name string) (_ State, compared int) {
	for _, at := range s {
		seg := &p.segs[at]
		compared += seg.effort(name)
		switch {
		case seg.end:
		case p.noHidden && !seg.dotted && strings.HasPrefix(name, "."):
		case seg.any:
			next = p.reach(next, at)
		case seg.match(name):
			next = p.reach(next, at+1)
		}
	}
	return next, compared
}

// effort is about how many bytes match compares, at most, with a fixed cost for the
// call.
func (s *segment) effort(name string) int {
	switch {
	case s.literal, s.affix, s.any, s.end:
		return 16
	case s.stars:
		return 16 + len(s.text)*(1+len(name))
	}
	return 16 + len(s.text)
}

// reach adds position at, and the position after it where ** can be skipped. Positions
// come in order, since no ** follows another.
func (p *Pattern) reach(s State, at int32) State {
	for ; ; at++ {
		if n := len(s); n == 0 || s[n-1] < at {
			s = append(s, at)
		}
		if !p.segs[at].any {
			return s
		}
	}
}

// Matched reports whether the names so far match.
func (p *Pattern) Matched(s State) bool {
	return slices.ContainsFunc(s, func(at int32) bool { return p.segs[at].end })
}

// Match reports whether path matches.
func (p *Pattern) Match(path string) bool {
	hit, _ := p.Compare(path)
	return hit
}

// Compare is Match, and returns about how many bytes it compared, at most.
func (p *Pattern) Compare(path string) (hit bool, compared int) {
	var memory [2][16]int32 // enough for most
	s, free := p.from, memory[0][:0]
	for i, more := 0, true; more; i++ {
		var name string
		name, path, more = strings.Cut(path, "/")
		n := 0
		s, n = p.stepTo(free, s, name)
		if compared += n; len(s) == 0 {
			return false, compared
		}
		free = memory[(i+1)%2][:0]
	}
	return p.Matched(s), compared
}

// names returns the only names that can match next, when the pattern alone tells them.
func (p *Pattern) names(s State) (names []string, known bool) {
	for _, at := range s {
		switch seg := p.segs[at]; {
		case seg.end:
		case !seg.literal:
			return nil, false
		default:
			names = append(names, seg.text)
		}
	}
	slices.Sort(names)
	return slices.Compact(names), true
}

// expand returns the patterns that the braces of pattern stand for, and how many steps
// that took: at most one per byte of pattern for the braces, and as many again for each
// of those patterns.
func expand(pattern string) (alts []string, steps int, err error) {
	all, steps, err := parse(pattern)
	if err != nil {
		return nil, steps, err
	}
	if all.count > maxAlternatives {
		return nil, steps, vfs.Errorf(vfs.Invalid, "the braces of a pattern stand for more than %d patterns", maxAlternatives)
	}
	var b []byte
	for i := range all.count {
		var took int
		b, took = all.write(b[:0], i)
		alts, steps = append(alts, string(b)), steps+took
	}
	return alts, steps, nil
}

// sequence is parts that follow one another in a pattern.
type sequence struct {
	parts []part
	count int // how many plain patterns it stands for; not exact above maxAlternatives
}

// part is a text, or a choice of sequences.
type part struct {
	text  string
	oneOf []sequence
	count int
}

func (s *sequence) add(p part) {
	if p.text == "" && p.oneOf == nil {
		return
	}
	s.parts = append(s.parts, p)
	s.count = min(s.count*p.count, maxAlternatives+1)
}

// parse parses the braces of a pattern, except those in brackets.
func parse(pattern string) (all sequence, steps int, err error) {
	open := [][]sequence{{{count: 1}}} // one for each open brace, and one outside all of them
	from, class, last := 0, false, strings.LastIndexByte(pattern, ']')
	for i := 0; i < len(pattern); i++ {
		steps++
		c := pattern[i]
		switch {
		case c == '\\':
			i++
			continue
		case class:
			class = c != ']'
			continue
		case c == '[':
			class = i < last
			continue
		case c != '{' && (len(open) == 1 || c != ',' && c != '}'):
			continue
		}
		in := open[len(open)-1]
		in[len(in)-1].add(part{text: pattern[from:i], count: 1})
		from = i + 1
		switch c {
		case '{':
			open = append(open, []sequence{{count: 1}})
		case ',':
			open[len(open)-1] = append(in, sequence{count: 1})
		case '}':
			open = open[:len(open)-1]
			outer := open[len(open)-1]
			outer[len(outer)-1].add(choice(in))
		}
	}
	if len(open) > 1 {
		return sequence{}, steps, vfs.Errorf(vfs.Invalid, "a pattern holds an open \"{\"")
	}
	all = open[0][0]
	all.add(part{text: pattern[from:], count: 1})
	return all, steps, nil
}

func choice(oneOf []sequence) part {
	p := part{oneOf: oneOf}
	for _, s := range oneOf {
		p.count = min(p.count+s.count, maxAlternatives+1)
	}
	return p
}

// write appends the i-th plain pattern that s stands for.
func (s *sequence) write(b []byte, i int) (_ []byte, steps int) {
	later := s.count // how many the parts still to come stand for
	for n := range s.parts {
		steps++
		p := &s.parts[n]
		b = append(b, p.text...)
		at := 0
		if p.count > 1 {
			later /= p.count
			at, i = i/later, i%later
		}
		for n := range p.oneOf {
			steps++
			c := &p.oneOf[n]
			if at < c.count {
				var took int
				b, took = c.write(b, at)
				steps += took
				break
			}
			at -= c.count
		}
	}
	return b, steps
}
