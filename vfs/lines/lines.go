// Package lines reads windows of the lines of a file: from a line on, or the last ones. It
// keeps no more than a window in memory, however long the file and its lines are.
//
// A line ends with LF, and its ending belongs to it. The last line may have none. Lines are
// counted from 1.
package lines

import (
	"bytes"
	"context"
	"crypto/sha256"
	"io"

	"capd/meter"
	"capd/vfs"
)

// Bounds of a window.
const (
	DefaultCount = 1000      // lines, if none are asked for
	MaxCount     = 10_000    // lines
	MaxBytes     = 256 << 10 // of all lines
	MaxLine      = 2000      // bytes of a line without its ending; the rest is clipped
)

// MaxVersioned is the size, in bytes, of the largest file whose version and number of lines
// a window has. A larger file is read only as far as the window needs.
const MaxVersioned = 64 << 20

// MaxScanned is how many bytes are read for a window.
const MaxScanned = 8 << 30

// maxBack is how many bytes are searched for the beginning of the last lines.
const maxBack = 64 << 20

// Query says which lines to read.
type Query struct {
	From  int64 // the first line; 0 is 1. Last ignores it
	Count int   // how many lines; 0 is [DefaultCount], and more than [MaxCount] are that many
	Last  bool  // the last Count lines
}

// Window is some consecutive lines of a file.
type Window struct {
	Data    []byte // the lines as they are, with their endings
	First   int64  // the number of the first; 0 if it is not known: the last lines of a file above [MaxVersioned]
	Count   int    // how many there are
	Next    int64  // the line after them; 0 if it is not known
	More    bool   // the file has more lines after them
	Clipped []Clip
	Total   int64       // lines of the file; 0 if it is not known
	Version vfs.Version // of the whole content; zero for a file above [MaxVersioned]
}

// Clip is a line of which a window has only the beginning.
type Clip struct {
	Index  int   // of the line in the window, from 0
	Offset int64 // at which the line begins in the file, in bytes
	Size   int64 // of the line without its ending, in bytes
}

// Reader is a File that reads windows itself, such as one that a remote host serves.
type Reader interface {
	ReadLines(ctx context.Context, q Query) (Window, error)
}

// Read returns the lines of f that q asks for. All of them, and the version, are of one
// content. A From after the last line is an empty window.
func Read(ctx context.Context, f vfs.File, q Query) (Window, error) {
	if r, ok := f.(Reader); ok {
		return r.ReadLines(ctx, q)
	}
	c, err := vfs.Open(ctx, f)
	if err != nil {
		return Window{}, err
	}
	defer c.Close()
	return Scan(ctx, c, q)
}

// Scan is Read for a content. Between reads it lets other calls have ctx's turn. It answers
// tooLarge for the last lines of a file that has none of them in its last 64 MiB, and for lines beyond [MaxScanned].
func Scan(ctx context.Context, c vfs.Sized, q Query) (Window, error) {
	s := &scan{ctx: ctx, c: c, last: q.Last, from: max(q.From, 1), count: q.Count}
	switch {
	case q.Count <= 0:
		s.count = DefaultCount
	case q.Count > MaxCount:
		s.count = MaxCount
	}
	whole := c.Size() <= MaxVersioned
	if q.Last {
		start, err := s.back()
		if err != nil {
			return Window{}, err
		}
		s.start = start
	}
	begin := int64(0)
	if q.Last && !whole {
		begin = s.start
	}
	if err := s.run(begin, whole); err != nil {
		return Window{}, err
	}
	return s.window(begin == 0), nil
}

// scan is a pass through a content.
type scan struct {
	ctx   context.Context
	c     vfs.Sized
	last  bool
	from  int64 // the first line that is wanted
	start int64 // last: the offset at which the wanted lines begin
	count int

	at      int64 // the offset of the next byte
	ended   int64 // lines that have ended before it
	open    bool  // a line has begun that has not ended
	begun   int64 // the offset at which it began
	cr      bool  // its last byte so far is a CR
	keep    []byte
	full    bool // the window has all that it may
	first   int64
	lines   []held
	data    []byte
	dropped int // bytes at the front of data that are not used any more
	sum     vfs.Version
	reached bool // the end of the content
}

// held is a line in data.
type held struct {
	from, to int // in data
	at, size int64
	clipped  bool
}

const chunk = 256 << 10

// run reads from begin, all of it if whole, and otherwise until the window is full.
func (s *scan) run(begin int64, whole bool) error {
	h := sha256.New()
	buf := make([]byte, min(chunk, max(s.c.Size()-begin, 1)))
	s.at, s.begun = begin, begin
	for size := s.c.Size(); s.at < size; {
		if err := meter.Yield(s.ctx); err != nil {
			return err
		}
		if s.at-begin >= MaxScanned {
			return vfs.Errorf(vfs.TooLarge, "these lines begin or end more than %d GiB into the file; use read with an offset", MaxScanned>>30)
		}
		n, err := s.c.ReadAt(buf[:min(int64(len(buf)), size-s.at)], s.at)
		if n == 0 && err == io.EOF {
			break // it became shorter
		} else if n == 0 && err != nil {
			return err
		}
		if whole {
			h.Write(buf[:n])
		}
		s.take(buf[:n])
		if s.full && !whole && s.open {
			return nil
		}
	}
	s.reached = true
	if s.open {
		s.end(nil)
	}
	if whole {
		s.sum = vfs.Version(h.Sum(nil))
	}
	return nil
}

// take passes b, the next bytes.
func (s *scan) take(b []byte) {
	for len(b) > 0 {
		if !s.wanted() {
			n := s.skip(b)
			b = b[n:]
			continue
		}
		n := bytes.IndexByte(b, '\n')
		if n < 0 {
			s.part(b)
			return
		}
		s.part(b[:n])
		s.at++
		s.end([]byte{'\n'})
		b = b[n+1:]
	}
}

// wanted reports whether the line that the next byte belongs to is collected.
func (s *scan) wanted() bool {
	if s.full {
		return false
	}
	begun := s.at
	if s.open {
		begun = s.begun
	}
	return s.last && begun >= s.start || !s.last && s.ended+1 >= s.from
}

// skip passes bytes of b that are not collected, at least one, and returns how many.
func (s *scan) skip(b []byte) int {
	if s.last && !s.full {
		b = b[:min(int64(len(b)), s.start-s.at)]
	}
	n := int64(bytes.Count(b, []byte{'\n'}))
	if !s.full && !s.last && s.ended+n+1 >= s.from { // the wanted lines begin in b
		n = s.from - 1 - s.ended
		end := 0
		for range n {
			end += bytes.IndexByte(b[end:], '\n') + 1
		}
		b = b[:end]
	}
	s.ended += n
	s.at += int64(len(b))
	s.open = b[len(b)-1] != '\n'
	s.begun = s.at // of no use while open, since it is not collected
	return len(b)
}

// part passes a part of a line that is collected.
func (s *scan) part(b []byte) {
	if !s.open {
		s.open, s.begun, s.cr, s.keep = true, s.at, false, s.keep[:0]
	}
	s.at += int64(len(b))
	if room := MaxLine + 1 - len(s.keep); room > 0 { // one more, since a CR may belong to the ending
		s.keep = append(s.keep, b[:min(room, len(b))]...)
	}
	if len(b) > 0 {
		s.cr = b[len(b)-1] == '\r'
	}
}

// end ends the line. ending is its LF, or nothing at the end of the file.
func (s *scan) end(ending []byte) {
	wanted := s.wanted()
	s.open = false
	s.ended++
	if !wanted {
		return
	}
	size := s.at - s.begun - int64(len(ending))
	if len(ending) > 0 && s.cr {
		ending = []byte("\r\n")
		size--
	}
	l := held{from: len(s.data), at: s.begun, size: size, clipped: size > MaxLine}
	text := s.keep[:min(size, MaxLine)]
	if l.clipped {
		text = whole(text)
	}
	if !s.last && len(s.data)+len(text)+len(ending) > MaxBytes {
		s.full = true
		return
	}
	if len(s.lines) == 0 {
		s.first = s.ended
	}
	s.data = append(append(s.data, text...), ending...)
	l.to = len(s.data)
	s.lines = append(s.lines, l)
	if s.last {
		s.shorten()
	} else if len(s.lines) == s.count {
		s.full = true
	}
}

// shorten drops the first of the last lines while they are too long together.
func (s *scan) shorten() {
	for len(s.data)-s.lines[0].from > MaxBytes || len(s.lines) > s.count {
		s.lines = s.lines[1:]
		s.first++
	}
	if s.dropped = s.lines[0].from; s.dropped < MaxBytes {
		return
	}
	s.data = append(s.data[:0], s.data[s.dropped:]...)
	for i := range s.lines {
		s.lines[i].from -= s.dropped
		s.lines[i].to -= s.dropped
	}
	s.dropped = 0
}

// whole returns text without the beginning of a character at its end.
func whole(text []byte) []byte {
	for i := 1; i < 4 && i <= len(text); i++ {
		c := text[len(text)-i]
		if c >= 0xc0 { // the first byte of a character
			if need := 2 + btoi(c >= 0xe0) + btoi(c >= 0xf0); need > i {
				return text[:len(text)-i]
			}
		}
		if c < 0x80 || c >= 0xc0 {
			break
		}
	}
	return text
}

func btoi(b bool) int {
	if b {
		return 1
	}
	return 0
}

// window returns what was collected. numbered says that the scan began with line 1.
func (s *scan) window(numbered bool) Window {
	w := Window{Count: len(s.lines), Version: s.sum}
	if w.Count > 0 {
		w.Data = s.data[s.lines[0].from:]
	}
	for i, l := range s.lines {
		if l.clipped {
			w.Clipped = append(w.Clipped, Clip{i, l.at, l.size})
		}
	}
	if !numbered {
		return w
	}
	if s.reached {
		w.Total = s.ended
	}
	switch {
	case w.Count > 0:
		w.First = s.first
	case s.last:
		w.First = s.ended + 1
	default:
		w.First = min(s.from, s.ended+1)
	}
	w.Next = w.First + int64(w.Count)
	w.More = !s.reached || w.Next <= s.ended
	return w
}

// back returns the offset at which the last count lines begin.
func (s *scan) back() (int64, error) {
	size := s.c.Size()
	buf := make([]byte, min(64<<10, max(size, 1)))
	found, first := 0, int64(-1) // first is the beginning of the earliest line that was found
	for end := size; end > 0; {
		if err := meter.Yield(s.ctx); err != nil {
			return 0, err
		}
		if size-end > maxBack {
			if first < 0 {
				return 0, vfs.Errorf(vfs.TooLarge, "the last line is longer than %d MiB; use read with an offset", maxBack>>20)
			}
			return first, nil
		}
		at := max(end-int64(len(buf)), 0)
		b := buf[:end-at]
		if n, err := s.c.ReadAt(b, at); n < len(b) {
			if err == io.EOF {
				err = vfs.Errorf(vfs.Busy, "the file became shorter; read it again")
			}
			return 0, err
		}
		if end == size && b[len(b)-1] == '\n' {
			b = b[:len(b)-1] // it ends the last line
		}
		for i := bytes.LastIndexByte(b, '\n'); i >= 0; i = bytes.LastIndexByte(b[:i], '\n') {
			first = at + int64(i) + 1
			if found++; found == s.count {
				return first, nil
			}
		}
		end = at
	}
	return 0, nil
}
