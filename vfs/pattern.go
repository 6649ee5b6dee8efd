package vfs

import (
	"path"
	"slices"
	"strings"
)

// MaxAlternatives is how many plain patterns the braces of one may stand for.
const MaxAlternatives = 64

// maxSegments is how many names these may have together; equal ones count once.
const maxSegments = 1024

// Pattern matches paths, name by name. In a name * stands for any characters,
// ? for one, [a-z] for one of a set, [^a-z] and [!a-z] for one outside it; a
// backslash takes the next character as it is. A name ** stands for any number
// of names, none included. {a,b} stands for either, across names too, and
// nests. Matching takes time linear in the path, whatever the pattern.
type Pattern struct {
	segs []segment // the alternatives one after the other, each ended by one with end set
	from State
}

type segment struct {
	any     bool   // **
	end     bool   // everything before it has matched
	literal bool   // text is a plain name
	affix   bool   // text is before*after, both plain
	stars   bool   // text holds a *
	text    string // what path.Match takes

	before, after string
}

// State is how far a Pattern has matched: the positions that may come next, in
// order.
type State []int32

// Compile reads a pattern. It answers invalid for one that is empty, has a
// leading "/", an empty name, "." or "..", an open bracket or brace, or braces
// that stand for more than [MaxAlternatives] patterns or for patterns that are
// too long together.
func Compile(pattern string) (*Pattern, error) {
	if err := checkPathSize(pattern); err != nil {
		return nil, err
	}
	alts, err := expand(pattern)
	if err != nil {
		return nil, err
	}
	p := &Pattern{}
	var starts []int32
	for i, alt := range alts {
		if slices.Contains(alts[:i], alt) {
			continue
		}
		starts = append(starts, int32(len(p.segs)))
		if alt == "" || alt[0] == '/' {
			return nil, Errorf(Invalid, "a pattern is not empty and starts at this Dir, never with \"/\"")
		}
		for text := range strings.SplitSeq(alt, "/") {
			s, err := compileName(text)
			if err != nil {
				return nil, err
			}
			if n := len(p.segs); s.any && n > 0 && p.segs[n-1].any {
				continue // **/** is no more than **
			}
			p.segs = append(p.segs, s)
			if len(p.segs)-len(starts)+1 > maxSegments {
				return nil, Errorf(Invalid, "the braces of a pattern stand for patterns of more than %d names together", maxSegments)
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
		return segment{}, Errorf(Invalid, "a pattern holds an empty name, \".\" or \"..\"")
	case "**":
		return segment{any: true}, nil
	}
	text = carets(text)
	if _, err := path.Match(text, "x"); err != nil {
		return segment{}, Errorf(Invalid, "a pattern holds an open \"[\" or ends in a backslash")
	}
	s := segment{text: text, literal: !strings.ContainsAny(text, `*?[\`), stars: strings.Contains(text, "*")}
	if before, after, ok := strings.Cut(text, "*"); ok && !strings.ContainsAny(before+after, `*?[\`) {
		s.affix, s.before, s.after = true, before, after
	}
	return s, nil
}

// carets writes a set that begins with ! as path.Match has it, with ^.
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

// Start is the state before the first name.
func (p *Pattern) Start() State { return p.from }

// Step returns the state after one more name. An empty state matches nothing,
// whatever follows.
func (p *Pattern) Step(s State, name string) State {
	next, _ := p.step(s, name)
	return next
}

// step is Step, and about how many bytes were compared for it, at most.
func (p *Pattern) step(s State, name string) (next State, compared int) {
	return p.stepTo(nil, s, name)
}

// stepTo is step into the memory of next, which holds nothing.
func (p *Pattern) stepTo(next, s State, name string) (_ State, compared int) {
	for _, at := range s {
		seg := &p.segs[at]
		compared += seg.effort(name)
		switch {
		case seg.end:
		case seg.any:
			next = p.reach(next, at)
		case seg.match(name):
			next = p.reach(next, at+1)
		}
	}
	return next, compared
}

// effort is about how many bytes match compares, at most, with what it takes to
// begin.
func (s *segment) effort(name string) int {
	switch {
	case s.literal, s.affix, s.any, s.end:
		return 16
	case s.stars:
		return 16 + len(s.text)*(1+len(name))
	}
	return 16 + len(s.text)
}

// reach adds position at, and the one that ** lets it skip to. Positions come
// in order, since no ** follows another.
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

// Matched reports whether the names up to here match.
func (p *Pattern) Matched(s State) bool {
	return slices.ContainsFunc(s, func(at int32) bool { return p.segs[at].end })
}

// Match reports whether path matches.
func (p *Pattern) Match(path string) bool {
	var memory [2][16]int32 // enough for most
	s, free := p.from, memory[0][:0]
	for i, more := 0, true; more; i++ {
		var name string
		name, path, more = strings.Cut(path, "/")
		if s, _ = p.stepTo(free, s, name); len(s) == 0 {
			return false
		}
		free = memory[(i+1)%2][:0]
	}
	return p.Matched(s)
}

// names returns the only names that can come next, when they are known without
// a look.
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

// expand returns the patterns that the braces of one stand for.
func expand(pattern string) ([]string, error) {
	done := []string{}
	todo := []string{pattern}
	for len(todo) > 0 {
		p := todo[len(todo)-1]
		todo = todo[:len(todo)-1]
		open, parts, rest, err := brace(p)
		switch {
		case err != nil:
			return nil, err
		case open < 0:
			done = append(done, p)
		}
		if len(done)+len(todo)+len(parts) > MaxAlternatives {
			return nil, Errorf(Invalid, "the braces of a pattern stand for more than %d patterns", MaxAlternatives)
		}
		for _, part := range slices.Backward(parts) {
			todo = append(todo, p[:open]+part+rest)
		}
	}
	return done, nil
}

// brace finds the first brace outside brackets and splits it: p is
// p[:open] + "{" + parts… + "}" + rest. open is -1 when there is none.
func brace(p string) (open int, parts []string, rest string, err error) {
	open, depth, from, class := -1, 0, 0, false
	for i := 0; i < len(p); i++ {
		switch c := p[i]; {
		case c == '\\':
			i++
		case class:
			class = c != ']'
		case c == '[':
			class = strings.IndexByte(p[i:], ']') > 0
		case c == '{':
			if depth++; depth == 1 {
				open, from = i, i+1
			}
		case c == ',' && depth == 1:
			parts, from = append(parts, p[from:i]), i+1
		case c == '}' && depth > 0:
			if depth--; depth == 0 {
				return open, append(parts, p[from:i]), p[i+1:], nil
			}
		}
	}
	if depth > 0 {
		return 0, nil, "", Errorf(Invalid, "a pattern holds an open \"{\"")
	}
	return -1, nil, "", nil
}
