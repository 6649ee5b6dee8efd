// Package patch reads patches and applies them to the contents of files: unified diffs, with the extended headers of git (see
// git-diff(1), "Generating patch text with -p"), and the format V4A, which the tool apply_patch of some models takes.
//
// A hunk is located by the lines that it keeps and removes. Its line number decides only between several such places, and
// its counts only where the hunk's end would not be clear. A hunk that fits at several places and names the line of none is refused.
//
// Contents are bytes. What a patch does not change stays as it is. A line of a patch that ends in LF stands for a line
// of the file that ends in CRLF, or in nothing at the file's end, if it fits nowhere otherwise; what replaces it then ends as it did. In the same way
// the first line need not have the byte order mark that the file begins with.
//
// The package knows no store. Its functions have no state and may be called from several goroutines at once.
package patch

import (
	"bytes"
	"strings"

	"capd/vfs"
)

// Bounds of a patch.
const (
	MaxBytes = 4 << 20  // of its text
	MaxLines = 1 << 19  // of it
	MaxFiles = 1000     // that it names
	MaxHunks = 50_000   // in all of its files
	MaxMade  = 64 << 20 // bytes of all contents that it makes
)

// Verb is what a [File] does.
type Verb uint8

// The verbs.
const (
	Modify Verb = iota // the content or the mode of the file at Path
	Create             // a file at To
	Delete             // the file at Path
	Rename             // the file at Path to To
	Copy               // the file at Path to To
)

func (v Verb) String() string { return [...]string{"modify", "create", "delete", "rename", "copy"}[v] }

// Bit is whether a file is executable, as far as a patch says it.
type Bit int8

// The values of Bit.
const (
	Unsaid Bit = iota
	Plain
	Executable
)

// Patch is what one text says about files, in its order.
type Patch struct {
	Files []File
	v4a   bool
}

// File is what a patch says about one file.
type File struct {
	Verb     Verb
	Path, To string // as the verb says; To is Path for Modify, and one of them "" for Create and Delete
	Was, Is  Bit
	Hunks    []Hunk

	line  int  // of the patch, where it begins
	whole bool // of a Delete: its hunks are the whole content; of a Create always
}

// Name returns the path by which people know f.
func (f *File) Name() string {
	if f.To != "" {
		return f.To
	}
	return f.Path
}

// Hunk is a change of consecutive lines.
type Hunk struct {
	line     int      // of the patch, where it begins
	old, new int      // lines at which it begins, from 1, as it says; 0 if it does not
	under    []string // lines that come before it, in order
	last     bool     // its old lines are the file's last
	lines    []line
}

// line is a line of a hunk.
type line struct {
	op   byte   // ' ', '-' or '+'
	text string // without LF
	cut  bool   // no LF ends it: the file ends here
}

// Parse reads a patch in either format. It answers invalid with the line of the patch that cannot be read, unsupported for what
// cannot be applied as a patch of text, and tooLarge or limit for a patch beyond the bounds. The paths of the result are
// valid; see [vfs.SplitPath].
func Parse(text []byte) (*Patch, error) {
	if len(text) > MaxBytes {
		return nil, vfs.Errorf(vfs.TooLarge, "a patch has at most %d bytes; send several", MaxBytes)
	}
	if bytes.Count(text, []byte("\n")) > MaxLines { // each takes memory, however short it is
		return nil, vfs.Errorf(vfs.Limit, "a patch has at most %d lines; send several", MaxLines)
	}
	r := &reader{lines: split(text)}
	p := &Patch{}
	err := r.unified(p)
	if begin := r.begins(); begin >= 0 {
		r.at, p.Files, p.v4a = begin, nil, true
		err = r.v4a(p)
	}
	switch {
	case err != nil:
		return nil, err
	case len(p.Files) == 0:
		return nil, vfs.Errorf(vfs.Invalid, `this is not a patch; send a unified diff, as "git diff" writes it, or "*** Begin Patch" and what apply_patch takes`)
	}
	return p, nil
}

// split returns the lines of text, without LF. If all of them end in CRLF, so did the program that wrote the patch, and they
// are returned without CR too.
func split(text []byte) []string {
	text = bytes.TrimPrefix(text, bom)
	if n := bytes.Count(text, []byte("\n")); n > 0 && bytes.Count(text, []byte("\r\n")) == n {
		text = bytes.ReplaceAll(text, []byte("\r\n"), []byte("\n"))
	}
	s := strings.TrimSuffix(string(text), "\n")
	if s == "" {
		return nil
	}
	return strings.Split(s, "\n")
}

var bom = []byte("\xef\xbb\xbf")

// reader reads the lines of a patch.
type reader struct {
	lines []string
	at    int
	hunks int
}

// begins returns the line at which a patch in the format V4A begins, or -1. A unified diff cannot have that line: the lines of its
// contents begin with another character.
func (r *reader) begins() int {
	for i, l := range r.lines {
		if strings.TrimRight(l, " \t\r") == "*** Begin Patch" {
			return i
		}
	}
	return -1
}

func (r *reader) peek(n int) string {
	if r.at+n < len(r.lines) {
		return r.lines[r.at+n]
	}
	return ""
}

func (r *reader) more() bool { return r.at < len(r.lines) }

// bad returns an error about the line that is read.
func (r *reader) bad(c vfs.Code, text string) error {
	return vfs.Errorf(c, "line %d of the patch: %s", min(r.at, len(r.lines))+1, text)
}

// add adds f, which is complete, to p.
func (r *reader) add(p *Patch, f File) error {
	if len(p.Files) == MaxFiles {
		return vfs.Errorf(vfs.Limit, "a patch changes at most %d files; send several", MaxFiles)
	}
	if r.hunks += len(f.Hunks); r.hunks > MaxHunks {
		return vfs.Errorf(vfs.Limit, "a patch has at most %d hunks; send several", MaxHunks)
	}
	for _, path := range []string{f.Path, f.To} {
		if path == "" {
			continue
		}
		if _, err := vfs.SplitPath(path); err != nil {
			return vfs.At(path, vfs.Errorf(vfs.CodeOf(err), "line %d of the patch: %s", f.line, vfs.Message(err)))
		}
	}
	p.Files = append(p.Files, f)
	return nil
}

// Reverse returns the patch that takes p back. It answers invalid if p does not have what that takes: V4A removes files
// without their content.
func (p *Patch) Reverse() (*Patch, error) {
	back := &Patch{v4a: p.v4a}
	for i := len(p.Files) - 1; i >= 0; i-- {
		f := p.Files[i]
		f.Path, f.To, f.Was, f.Is = f.To, f.Path, f.Is, f.Was
		switch f.Verb {
		case Create:
			f.Verb, f.whole = Delete, true
		case Delete:
			if !f.whole {
				return nil, vfs.At(f.To, vfs.Errorf(vfs.Invalid, "line %d of the patch: a Delete File does not have the content, so it cannot be reversed", f.line))
			}
			f.Verb = Create
		case Copy:
			f.Verb, f.To, f.whole = Delete, "", false
			f.Hunks = nil
		}
		hunks := f.Hunks
		f.Hunks = make([]Hunk, len(hunks))
		for i, h := range hunks {
			f.Hunks[i] = h.reverse()
		}
		back.Files = append(back.Files, f)
	}
	return back, nil
}

func (h Hunk) reverse() Hunk {
	h.old, h.new = h.new, h.old
	lines := h.lines
	h.lines = make([]line, 0, len(lines))
	for i := 0; i < len(lines); { // what is removed comes first in each run
		end := i
		for end < len(lines) && lines[end].op != ' ' {
			end++
		}
		for _, op := range []byte("+-") {
			for _, l := range lines[i:end] {
				if l.op == op {
					l.op = '+' + '-' - op
					h.lines = append(h.lines, l)
				}
			}
		}
		if end < len(lines) {
			h.lines = append(h.lines, lines[end])
			end++
		}
		i = end
	}
	return h
}
