package grep

import (
	"bytes"
	"slices"
)

// Output says what of a file is wanted.
type Output uint8

// The values of Output.
const (
	Lines  Output = iota // the lines that match, with those around them
	Names                // whether one matches
	Counts               // how many match
)

// Show says what of a file is shown.
type Show struct {
	Output        Output
	Before, After int // lines shown before and after each that matches; only with Lines
	LineBytes     int // how much of a line is shown, in bytes
}

// Line is a line of a file, as it is shown.
type Line struct {
	Number int64  // from 1
	Text   string // without its end; at most Show.LineBytes, around the match; not always UTF-8
	From   int64  // where Text begins in the line, in bytes
	Size   int64  // bytes of the line; more than Text if that was cut
	Match  bool   // false for a line before or after one that matches

	end place // of the line
}

// File is a file in which a line matches.
type File struct {
	Path   string
	Lines  []Line // none for a binary file
	Count  int64  // lines that match; with Names and for a binary file 1 or more
	Binary bool   // it holds a NUL, so its lines are not shown

	bytes   int  // of Lines
	stopped bool // it is not searched to its end, but up to at
	at      place
}

// place is how far a file was searched: up to an offset, where a line begins. number is how
// many lines come before, and due how many are still shown after the last match.
type place struct {
	offset, number int64
	due            int
}

// lineCost is what a line costs besides its text, in bytes of a page.
const lineCost = 32

// fileSearch is the search of one file. It is given the file's text in windows, one after
// the other. Each begins where a line begins, and all but the last end with a line.
type fileSearch struct {
	*searcher
	show Show
	room room // for what is shown
	File
	last []Line // the lines before the window that may be shown before a match
	done bool   // nothing more of the file is wanted
}

// room is how much may be shown.
type room struct{ matches, bytes int }

// window searches the next window. last says that the file ends there.
func (f *fileSearch) window(b []byte, last bool) {
	f.begin()
	at := 0 // up to here the window is done
	for !f.done {
		line, ok := f.next(b, at)
		if !ok {
			break
		}
		if f.File.Count == 0 && bytes.IndexByte(b, 0) >= 0 {
			f.Binary = true
		}
		f.Count++
		switch {
		case f.Binary, f.show.Output == Names:
			f.done = true
		case f.show.Output == Lines:
			at = f.matched(b, at, line)
			continue
		}
		at = min(line.to+1, len(b))
	}
	if f.show.Output == Lines && !f.done && (!last || f.at.due > 0) {
		f.rest(b, at)
	}
}

// matched shows line, what is due before it from at on, and what comes right before it. It
// returns where the line has ended.
func (f *fileSearch) matched(b []byte, at int, line found) int {
	at = f.after(b, at, line.from)
	if f.done {
		return at
	}
	before := f.before(b, at, line.from)
	cost := lineCost + min(line.to-line.from, f.show.LineBytes)
	for _, l := range before {
		cost += lineCost + len(l.Text)
	}
	if len(f.Lines) > 0 && (f.room.matches == 0 || cost > f.room.bytes) {
		f.Count--
		f.done, f.stopped = true, true
		return at
	}
	f.room.matches--
	number := f.at.number + int64(bytes.Count(b[at:line.from], []byte("\n")))
	for _, l := range before {
		f.put(l)
	}
	next := min(line.to+1, len(b))
	end := place{f.at.offset + int64(next-at), number + 1, f.show.After}
	f.put(f.line(b[line.from:line.to], line.near-line.from, number+1, true, end))
	f.at = end
	f.last = nil
	return next
}

func (f *fileSearch) put(l Line) {
	f.Lines = append(f.Lines, l)
	f.File.bytes += lineCost + len(l.Text)
	f.room.bytes -= lineCost + len(l.Text)
}

// after shows the lines that are due after a match, of those that begin between at and to.
func (f *fileSearch) after(b []byte, at, to int) int {
	for f.at.due > 0 && at < to && !f.done {
		line := lineAt(b, at, at)
		if lineCost+min(line.to-at, f.show.LineBytes) > f.room.bytes {
			f.done, f.stopped = true, true
			break
		}
		next := min(line.to+1, len(b))
		f.at = place{f.at.offset + int64(next-at), f.at.number + 1, f.at.due - 1}
		f.put(f.line(b[at:line.to], 0, f.at.number, false, f.at))
		f.last, at = nil, next
	}
	return at
}

// before returns the lines right before the one that begins at to, as many as are wanted,
// which begin at at or later, or in the window before.
func (f *fileSearch) before(b []byte, at, to int) (lines []Line) {
	from := to
	for n := 0; n < f.show.Before && from > at; n++ {
		from = at + bytes.LastIndexByte(b[at:from-1], '\n') + 1
	}
	number := f.at.number + int64(bytes.Count(b[at:from], []byte("\n")))
	if more := f.show.Before - bytes.Count(b[from:to], []byte("\n")); more > 0 && from == at {
		lines = slices.Clip(f.last[max(0, len(f.last)-more):])
	}
	offset := f.at.offset + int64(from-at)
	for from < to {
		line := lineAt(b, from, from)
		next := min(line.to+1, len(b))
		number, offset = number+1, offset+int64(next-from)
		lines = append(lines, f.line(b[from:line.to], 0, number, false, place{offset, number, 0}))
		from = next
	}
	return lines
}

// rest ends a window that is searched up to at: it shows what is due, and keeps what may be
// shown before a match in the next window.
func (f *fileSearch) rest(b []byte, at int) {
	if at = f.after(b, at, len(b)); f.done {
		return
	}
	f.last = f.before(b, at, len(b))
	f.at = place{f.at.offset + int64(len(b)-at), f.at.number + int64(bytes.Count(b[at:], []byte("\n"))), f.at.due}
}

// line returns a line as it is shown. near is a place in it that is shown if it can be.
func (f *fileSearch) line(text []byte, near int, number int64, match bool, end place) Line {
	text = bytes.TrimSuffix(text, []byte("\r"))
	l := Line{Number: number, Size: int64(len(text)), Match: match, end: end}
	if most := f.show.LineBytes; len(text) > most {
		from := min(max(near-most/2, 0), len(text)-most)
		for from > 0 && text[from]&0xC0 == 0x80 { // not in a character
			from--
		}
		to := min(from+most, len(text))
		for to > from && to < len(text) && text[to]&0xC0 == 0x80 {
			to--
		}
		l.From, text = int64(from), text[from:to]
	}
	l.Text = string(text)
	return l
}
