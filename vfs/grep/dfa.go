package grep

import (
	"bytes"
	"encoding/binary"
	"regexp/syntax"
	"slices"
	"unicode/utf8"
)

// dfa decides whether lines match. Its states are made when they are needed, and dropped
// when there are too many: so it takes bounded memory, and time linear in the text. It is
// used by one goroutine at a time. A state is a set of places in the program, of which one
// is always where a match may begin.
type dfa struct {
	p      *Pattern
	table  []int32 // by state and byte; a state is the index of its row
	sets   []set   // by state / width
	known  map[string]int32
	runes  map[edge]int32 // of characters that are not in table
	start  int32          // at the beginning of a line
	steps  int64          // places that were looked at to make states
	marks  []uint32       // by place: whether it is in the set under way
	mark   uint32
	places []uint32 // that set
	key    []byte
}

// set is what a state stands for.
type set struct {
	places []uint32 // sorted; none of them is a match
	begin  bool     // at the beginning of a line
	word   bool     // after a letter of a word; only where the pattern asks
}

type edge struct {
	from int32
	r    rune
}

// width is the length of a row of the table, and maxStates how many there are at most:
// they take about 2 MiB.
const (
	width     = 256
	maxStates = 2048
)

// What is in the table besides states.
const (
	unknown int32 = -1 - iota
	matched       // the line matches
	slow          // the byte alone does not tell
)

// end is the end of a line, as a character.
const end rune = -1

func newDFA(p *Pattern) *dfa {
	d := &dfa{p: p, marks: make([]uint32, len(p.prog.Inst))}
	d.reset()
	return d
}

// reset drops all states.
func (d *dfa) reset() {
	d.table, d.sets = d.table[:0], d.sets[:0]
	d.known, d.runes = map[string]int32{}, map[edge]int32{}
	d.begin()
	if d.add(uint32(d.p.prog.Start)) {
		d.start = matched
		return
	}
	d.start = d.state(true, false)
}

// state returns the state for the set under way.
func (d *dfa) state(begin, word bool) int32 {
	slices.Sort(d.places)
	d.key = d.key[:0]
	for _, at := range d.places {
		d.key = binary.AppendUvarint(d.key, uint64(at))
	}
	flags := byte(0)
	if begin {
		flags |= 1
	}
	if word {
		flags |= 2
	}
	d.key = append(d.key, flags)
	if s, ok := d.known[string(d.key)]; ok {
		return s
	}
	s := int32(len(d.table))
	d.known[string(d.key)] = s
	d.sets = append(d.sets, set{slices.Clone(d.places), begin, word})
	for c := range width {
		next := unknown
		if c >= utf8.RuneSelf || c == '\r' && !d.p.keepCR {
			next = slow
		}
		d.table = append(d.table, next)
	}
	return s
}

// begin begins a set.
func (d *dfa) begin() {
	d.mark++
	d.places = d.places[:0]
}

// add adds a place to the set under way, and what can be reached from there without a
// character and without a condition. It reports whether that is a match.
func (d *dfa) add(at uint32) (match bool) {
	if d.marks[at] == d.mark {
		return false
	}
	d.marks[at] = d.mark
	d.steps++
	switch in := &d.p.prog.Inst[at]; in.Op {
	case syntax.InstAlt, syntax.InstAltMatch:
		return d.add(in.Out) || d.add(in.Arg)
	case syntax.InstCapture, syntax.InstNop:
		return d.add(in.Out)
	case syntax.InstMatch:
		return true
	case syntax.InstFail:
	default:
		d.places = append(d.places, at)
	}
	return false
}

// step returns the state after the character r, or matched.
func (d *dfa) step(s int32, r rune) int32 {
	from := d.sets[s/width]
	before := rune(' ')
	switch {
	case from.begin:
		before = end
	case from.word:
		before = 'a'
	}
	places, match := d.settle(from.places, syntax.EmptyOpContext(before, r))
	if match {
		return matched
	}
	if r == end {
		return d.start
	}
	d.begin()
	for _, at := range places {
		in := &d.p.prog.Inst[at]
		d.steps++
		if in.Op != syntax.InstEmptyWidth && in.MatchRune(r) && d.add(in.Out) {
			return matched
		}
	}
	if d.add(uint32(d.p.prog.Start)) {
		return matched
	}
	if len(d.sets) >= maxStates {
		places := slices.Clone(d.places)
		d.reset()
		d.places = append(d.places[:0], places...)
	}
	return d.state(false, d.p.words && syntax.IsWordChar(r))
}

// settle returns places, and those that can be reached from them where the conditions in
// holds hold. match says that this is a match.
func (d *dfa) settle(places []uint32, holds syntax.EmptyOp) (all []uint32, match bool) {
	all = places
	begun := false
	for i := 0; i < len(all); i++ {
		in := &d.p.prog.Inst[all[i]]
		if in.Op != syntax.InstEmptyWidth || syntax.EmptyOp(in.Arg)&^holds != 0 {
			continue
		}
		if !begun {
			begun = true
			d.begin()
			for _, at := range places {
				d.marks[at] = d.mark
			}
			d.places = append(d.places, places...)
		}
		if d.add(in.Out) {
			return nil, true
		}
		all = d.places
	}
	if begun {
		all = slices.Clone(all)
	}
	return all, false
}

// run goes on in state s through b. It stops where the line matches, and returns matched
// and the index there: in the line, or at its end. At the end of each line it begins again.
func (d *dfa) run(s int32, b []byte) (int32, int) {
	if s == matched {
		return matched, 0
	}
	table := d.table
	for i := 0; i < len(b); {
		next := table[s+int32(b[i])]
		if next >= 0 {
			s = next
			i++
			continue
		}
		size := 1
		switch next {
		case unknown:
			next = d.after(s, b[i])
			table = d.table
		case slow:
			next, size = d.slowly(s, b[i:])
			table = d.table
		}
		if next == matched {
			return matched, i
		}
		s = next
		i += size
	}
	return s, len(b)
}

// after returns the state after c, and remembers it.
func (d *dfa) after(s int32, c byte) int32 {
	r, states := rune(c), len(d.sets)
	if c == '\n' {
		r = end
	}
	next := d.step(s, r)
	if len(d.sets) >= states { // otherwise s is gone
		d.table[s+int32(c)] = next
	}
	return next
}

// slowly returns the state after the first character of b, and its size. A CR before the
// end of the line is skipped.
func (d *dfa) slowly(s int32, b []byte) (int32, int) {
	r, size := utf8.DecodeRune(b)
	if r == '\r' && (len(b) == 1 || b[1] == '\n') {
		return s, 1
	}
	at := edge{s, r}
	if next, ok := d.runes[at]; ok {
		return next, size
	}
	if len(d.runes) >= maxStates*8 {
		clear(d.runes)
	}
	states := len(d.sets)
	next := d.step(s, r)
	if len(d.sets) >= states {
		d.runes[at] = next
	}
	return next, size
}

// ends reports whether the line that ends in state s matches there.
func (d *dfa) ends(s int32) bool { return s == matched || d.step(s, end) == matched }

// match reports whether a line, without its end, matches.
func (d *dfa) match(line []byte) bool {
	s, _ := d.run(d.start, line)
	return d.ends(s)
}

// find returns the index of a place in the first line of b that matches, or -1. The last
// line may have no end.
func (d *dfa) find(b []byte) int {
	s, at := d.run(d.start, b)
	switch {
	case s == matched:
		return at
	case len(b) > 0 && !bytes.HasSuffix(b, []byte("\n")) && d.ends(s):
		return len(b)
	}
	return -1
}
