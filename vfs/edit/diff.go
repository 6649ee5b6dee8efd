package edit

import (
	"bytes"
	"fmt"
)

// context is how many lines a hunk shows before and after what was changed.
const context = 3

// Hunks returns the difference in the unified format, without the names of files: what diff -u
// and git apply know. It looks only at what was changed. If it would be more than most bytes it
// ends after the last hunk that fits, and cut is true.
func (r *Result) Hunks(most int) (text []byte, cut bool) {
	d := hunks{old: r.old, new: r.Content, lineA: 1, lineB: 1}
	all := r.regions()
	for len(all) > 0 {
		n := 1
		for n < len(all) && forward(d.old, all[n-1].a1, 2*context) >= all[n].a0 {
			n++
		}
		end := len(d.out)
		if d.hunk(all[:n]); len(d.out) > most {
			return d.out[:end], true
		}
		all = all[n:]
	}
	return d.out, false
}

// hunks are written one after the other.
type hunks struct {
	old, new     []byte
	a, b         int // offsets in old and new up to which lines were counted
	lineA, lineB int // the numbers of the lines there
	out          []byte
}

func (d *hunks) hunk(all []region) {
	from := backward(d.old, all[0].a0, context)
	to := forward(d.old, all[len(all)-1].a1, context)
	fromB := all[0].b0 - (all[0].a0 - from)
	toB := all[len(all)-1].b1 + (to - all[len(all)-1].a1)
	d.lineA += bytes.Count(d.old[d.a:from], lf)
	d.lineB += bytes.Count(d.new[d.b:fromB], lf)
	d.a, d.b = from, fromB
	d.out = fmt.Appendf(d.out, "@@ -%s +%s @@\n", extent(d.lineA, countLines(d.old[from:to])), extent(d.lineB, countLines(d.new[fromB:toB])))
	at := from
	for _, g := range all {
		d.lines(' ', d.old[at:g.a0])
		d.lines('-', d.old[g.a0:g.a1])
		d.lines('+', d.new[g.b0:g.b1])
		at = g.a1
	}
	d.lines(' ', d.old[at:to])
}

func (d *hunks) lines(mark byte, b []byte) {
	for line := range bytes.Lines(b) {
		d.out = append(append(d.out, mark), line...)
		if line[len(line)-1] != '\n' {
			d.out = append(d.out, "\n\\ No newline at end of file\n"...)
		}
	}
}

// extent is how a hunk says where it is: no lines are after the line before them.
func extent(first, n int) string {
	if n == 0 {
		first--
	}
	return fmt.Sprintf("%d,%d", first, n)
}

// backward returns where the line begins that is n lines before the one at at.
func backward(b []byte, at, n int) int {
	for ; n > 0 && at > 0; n-- {
		at = bytes.LastIndexByte(b[:at-1], '\n') + 1
	}
	return at
}

// forward returns where the line begins that is n lines after the one at at.
func forward(b []byte, at, n int) int {
	for ; n > 0 && at < len(b); n-- {
		i := bytes.IndexByte(b[at:], '\n')
		if i < 0 {
			return len(b)
		}
		at += i + 1
	}
	return at
}
