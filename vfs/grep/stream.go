package grep

import (
	"bytes"
	"context"
	"io"
	"math"
	"unicode/utf8"

	"capd/meter"
	"capd/vfs"
)

// window is how much of a file is read at once, in bytes.
const window = 256 << 10

// stream searches a content that does not fit into buf, from f.at on, up to the size that it
// had when it was opened. It ends early when more than most bytes were read; 0 is no bound. Names
// and counts cannot be continued, nor can a line: of them it reads at least maxWhole bytes, and
// then answers tooLarge.
func (f *fileSearch) stream(ctx context.Context, c vfs.Content, buf []byte, most int64) (read int64, err error) {
	r := &windows{ctx: ctx, c: c, buf: buf, at: f.at.offset, size: c.Size()}
	f.at.offset = min(f.at.offset, r.size)
	if r.most = max(most, maxWhole); most == 0 {
		r.most = math.MaxInt64
	}
	for !f.done {
		if r.read > r.most {
			return r.read, vfs.Errorf(vfs.TooLarge, "only its first %d bytes were searched", r.read)
		}
		if most > 0 && f.show.Output == Lines && r.read > most {
			f.stopped, f.done = true, true
			break
		}
		b, last, err := r.next()
		if err != nil {
			return r.read, err
		}
		lines := b
		if !last {
			lines = b[:bytes.LastIndexByte(b, '\n')+1]
		}
		switch {
		case last || len(lines) > 0:
			f.window(lines, last)
			r.used(len(lines))
		default:
			if err := f.long(r); err != nil {
				return r.read, err
			}
		}
		if last {
			break
		}
	}
	return r.read, nil
}

// maxWhole is how many bytes a search with bounds reads of what cannot be continued.
const maxWhole = 128 << 20

// windows reads a content in windows.
type windows struct {
	ctx  context.Context
	c    vfs.Content
	buf  []byte
	n    int // bytes in buf
	at   int64
	size int64
	read int64
	most int64 // that may be read
}

// next fills the window. last says that the content ends with it.
func (r *windows) next() (b []byte, last bool, err error) {
	if err := meter.Yield(r.ctx); err != nil {
		return nil, false, err
	}
	room := int(min(int64(len(r.buf)-r.n), max(r.size-r.at, 0)))
	n := 0
	if room > 0 {
		n, err = r.c.ReadAt(r.buf[r.n:r.n+room], r.at)
		if err != nil && err != io.EOF {
			return nil, false, err
		}
	}
	r.n, r.at, r.read = r.n+n, r.at+int64(n), r.read+int64(n)
	return r.buf[:r.n], err == io.EOF || r.at >= r.size, nil
}

// used drops the first n bytes of the window.
func (r *windows) used(n int) { r.n = copy(r.buf, r.buf[n:r.n]) }

// long searches a line that is longer than the window, from the window's beginning. It is
// seen a part at a time.
func (f *fileSearch) long(r *windows) error {
	s, begun, shown := f.dfa.start, int64(0), Line{}
	hit := s == matched
	for {
		b := r.buf[:r.n]
		to, ended := bytes.IndexByte(b, '\n'), true
		if to < 0 {
			to, ended = len(b), r.at >= r.size
		}
		if !ended {
			to = split(b)
		}
		if !hit || begun == 0 {
			near := 0
			if !hit {
				s, near = f.dfa.run(s, b[:to])
				hit = s == matched || ended && f.dfa.ends(s)
			}
			if hit {
				f.Binary = f.Count == 0 && bytes.IndexByte(b[:to], 0) >= 0 || f.Binary
				shown = f.line(b[:to], near, f.at.number+1, true, place{})
				shown.From += begun
			}
		}
		if hit && (f.Binary || f.show.Output == Names) {
			f.Count++
			f.done = true
			return nil
		}
		begun += int64(to)
		if r.read > r.most {
			return vfs.Errorf(vfs.TooLarge, "line %d is longer than %d bytes; the file is not searched from there on", f.at.number+1, begun)
		}
		if ended {
			r.used(min(to+1, len(b)))
			break
		}
		r.used(to)
		if _, _, err := r.next(); err != nil {
			return err
		}
	}
	f.at = place{f.at.offset + begun + 1, f.at.number + 1, max(f.at.due-1, 0)}
	f.last = nil
	if !hit {
		return nil
	}
	f.Count++
	if f.show.Output == Lines {
		f.at.due = f.show.After
		shown.Size, shown.end = begun, f.at
		f.room.matches--
		f.put(shown)
	}
	return nil
}

// split returns how much of b can be matched without what follows: all but a character that
// is not whole, and a CR that may end the line.
func split(b []byte) int {
	n := len(b)
	for i := 1; i < utf8.UTFMax && i < n; i++ {
		if c := b[n-i]; utf8.RuneStart(c) {
			if !utf8.FullRune(b[n-i:]) || c == '\r' {
				return n - i
			}
			break
		}
	}
	return n
}
