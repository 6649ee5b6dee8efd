package patch

import (
	"strconv"
	"strings"

	"capd/vfs"
)

// hunk reads a hunk. It ends where its counts say, if that leaves nothing that looks like a part of it; otherwise where its lines
// say.
func (r *reader) hunk() (h Hunk, err error) {
	h.line = r.at + 1
	m := header.FindStringSubmatch(r.peek(0))
	h.old, h.new = number(m[1], 0), number(m[3], 0)
	begin := r.at + 1
	counted := m[1] != "" && r.counted(&h, begin, number(m[2], 1), number(m[4], 1))
	if !counted {
		err = r.uncounted(&h, begin)
	}
	if err == nil && len(h.lines) == 0 {
		err = r.bad(vfs.Invalid, "this hunk has no lines")
	}
	return h, err
}

// number returns the number that s is, or otherwise if it is left out. One too long to be a line is none.
func number(s string, otherwise int) int {
	if s == "" {
		return otherwise
	}
	n, err := strconv.ParseInt(s, 10, 32)
	if err != nil {
		return 0
	}
	return int(n)
}

// counted reads so many lines of the old file and of the new one. It reports whether the hunk ends there.
func (r *reader) counted(h *Hunk, begin, old, now int) bool {
	r.at, h.lines = begin, nil
	for old > 0 || now > 0 {
		if !r.more() {
			return false
		}
		l, ok := bodyLine(r.peek(0))
		if !ok {
			return false
		}
		if l.op != '+' {
			old--
		}
		if l.op != '-' {
			now--
		}
		if old < 0 || now < 0 {
			return false
		}
		h.lines = append(h.lines, l)
		r.at++
		r.cut(h)
	}
	rest := 0
	for r.at+rest < len(r.lines) && blank(r.peek(rest)) {
		rest++
	}
	if r.at+rest >= len(r.lines) {
		return true
	}
	at := r.at
	r.at += rest
	_, more := bodyLine(r.peek(0))
	over := !more || r.isHeader() || r.signature()
	r.at = at
	return over
}

// uncounted reads the lines that can be in a hunk, up to the next file.
func (r *reader) uncounted(h *Hunk, begin int) error {
	r.at, h.lines = begin, nil
	for r.more() {
		if r.isHeader() && (header.MatchString(r.peek(2)) || len(r.lines) == r.at+2) || r.signature() {
			break
		}
		l, ok := bodyLine(r.peek(0))
		if !ok {
			if strings.HasPrefix(r.peek(0), `\`) {
				return r.bad(vfs.Invalid, `nothing comes before "\ No newline at end of file"`)
			}
			break
		}
		h.lines = append(h.lines, l)
		r.at++
		r.cut(h)
	}
	for n := len(h.lines); n > 0 && h.lines[n-1].op == ' ' && blank(r.lines[r.at-1]) && !h.lines[n-1].cut; n-- { // they come between two files
		h.lines = h.lines[:n-1]
		r.at--
	}
	return nil
}

// blank reports whether l is a line of context that has lost its space, or no line of a hunk at all.
func blank(l string) bool { return l == "" || l == "\r" }

// signature reports whether the end of a mail is next, as git format-patch writes it.
func (r *reader) signature() bool {
	if l := r.peek(0); l != "-- " && l != "--" {
		return false
	}
	_, more := bodyLine(r.peek(1))
	return !more || blank(r.peek(1))
}

// bodyLine reads a line of a hunk.
func bodyLine(l string) (line, bool) {
	if blank(l) {
		return line{op: ' ', text: l}, true
	}
	switch l[0] {
	case ' ', '-', '+':
		return line{op: l[0], text: l[1:]}, true
	}
	return line{}, false
}

// cut reads what says that no LF ends the line before it.
func (r *reader) cut(h *Hunk) {
	if r.more() && strings.HasPrefix(r.peek(0), `\ `) {
		h.lines[len(h.lines)-1].cut = true
		r.at++
	}
}
