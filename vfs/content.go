package vfs

import (
	"context"
	"io"
	"math"
	"sync/atomic"

	"capd/meter"
)

// Content is the content of a file, held open. A later Replace of the file does not
// change it; a write in place may, on a store that writes in place. ReadAt is safe for
// concurrent use. If the capability is revoked during a read, ReadAt withholds the
// result.
type Content interface {
	io.ReaderAt
	io.Closer
	Size() int64 // bytes, when it was opened
}

// Opener is a File that can hold its content open.
type Opener interface {
	Open(ctx context.Context) (Content, error)
}

// Open holds f's content open. ctx is used to open the content and for every read of
// it. For a file that is not an [Opener] every read goes to the file's current content.
func Open(ctx context.Context, f File) (Content, error) {
	if o, ok := f.(Opener); ok {
		return o.Open(ctx)
	}
	info, err := f.Stat(ctx)
	if err != nil {
		return nil, err
	}
	return &placeContent{ctx, f, info.Size}, nil
}

// Learner is a Content that can be told its version, so that its store need not read it again.
type Learner interface {
	Learn(v Version)
}

// Learn tells c its version. The caller has read all of c since it was opened, and v is the
// version of what it read. It is for hosts: no method of a guest's interface says a version
// that is believed.
func Learn(c Content, v Version) {
	if l, ok := c.(Learner); ok {
		l.Learn(v)
	}
}

type placeContent struct {
	ctx  context.Context
	f    File
	size int64
}

func (c *placeContent) ReadAt(p []byte, off int64) (int, error) { return c.f.ReadAt(c.ctx, p, off) }
func (c *placeContent) Size() int64                             { return c.size }
func (c *placeContent) Close() error                            { return nil }

// NewContent returns a Content of size bytes that are read from r. r's errors are those of
// the Content. Close closes r once. Afterwards, and when ctx has ended, every read fails.
func NewContent(ctx context.Context, r ReadAtCloser, size int64) Content {
	return &heldContent{ctx: ctx, r: r, size: size}
}

// ReadAtCloser is what [NewContent] reads.
type ReadAtCloser interface {
	io.ReaderAt
	io.Closer
}

type heldContent struct {
	ctx    context.Context
	r      ReadAtCloser
	size   int64
	closed atomic.Bool
}

func (c *heldContent) Size() int64 { return c.size }

func (c *heldContent) ReadAt(p []byte, off int64) (int, error) {
	if err := c.ctx.Err(); err != nil {
		return 0, err
	}
	if c.closed.Load() {
		return 0, Stale
	}
	return ReadAt(c.r, p, off)
}

func (c *heldContent) Close() error {
	if c.closed.Swap(true) {
		return nil
	}
	return c.r.Close()
}

// ReadAt reads from r with the rules of [File].ReadAt, whatever r itself does with an
// empty p or with offsets beyond its end.
func ReadAt(r io.ReaderAt, p []byte, off int64) (int, error) {
	room := math.MaxInt64 - off
	switch {
	case off < 0:
		return 0, ErrOffset
	case room == 0:
		return 0, io.EOF
	case len(p) == 0:
		n, err := r.ReadAt(make([]byte, 1), off)
		if n > 0 {
			err = nil
		}
		return 0, err
	case int64(len(p)) > room:
		n, err := r.ReadAt(p[:room], off)
		if err == nil {
			err = io.EOF
		}
		return n, err
	}
	return r.ReadAt(p, off)
}

// Sized is a content of Size bytes, such as a [Content] or an io.SectionReader.
type Sized interface {
	io.ReaderAt
	Size() int64
}

// copyBuffer is how many bytes Copy reads at once.
const copyBuffer = 64 << 10

// Copy writes r to w, and returns how many bytes it wrote. It stops when ctx ends. Between
// reads it lets other calls have ctx's turn. If r ends before its size, Copy answers
// [io.ErrUnexpectedEOF].
func Copy(ctx context.Context, w io.Writer, r Sized) (n int64, err error) {
	size := r.Size()
	buf := make([]byte, min(size, copyBuffer))
	for n < size {
		if err := meter.Yield(ctx); err != nil {
			return n, err
		}
		k, err := r.ReadAt(buf[:min(int64(len(buf)), size-n)], n)
		if k == 0 && err == io.EOF {
			return n, io.ErrUnexpectedEOF
		} else if k == 0 && err != nil {
			return n, err
		}
		if _, err := w.Write(buf[:k]); err != nil {
			return n, err
		}
		n += int64(k)
	}
	return n, nil
}

// Appender is a File that appends atomically: after two concurrent appends both are
// there, whole, one after the other.
type Appender interface {
	// Append writes p at the file's end and returns the file's size before that.
	Append(ctx context.Context, p []byte, c If) (off int64, err error)
}

// Append writes p at f's end and returns the offset it was written at. It answers
// unsupported when f is not an [Appender]: writing at the size that Stat reports could
// lose one of two appends.
func Append(ctx context.Context, f File, p []byte, c If) (int64, error) {
	if a, ok := f.(Appender); ok {
		return a.Append(ctx, p, c)
	}
	return 0, Errorf(Unsupported, "this store cannot append; write the whole file")
}

// maxIdleReads is how many consecutive reads may return neither bytes nor an error.
const maxIdleReads = 100

// ReadFull reads from r until buf is full, r ends or r fails. Stores that take a whole
// file use it. It returns how much it read, with io.EOF when r has ended. Between reads
// it checks ctx, and lets other calls have its turn. It answers [io.ErrNoProgress] for a
// reader that returns nothing too often, and invalid for one that returns more than it
// has room for.
func ReadFull(ctx context.Context, r io.Reader, buf []byte) (n int, err error) {
	for idle := 0; n < len(buf) && err == nil; {
		if err := meter.Yield(ctx); err != nil {
			return n, err
		}
		var k int
		k, err = r.Read(buf[n:])
		if k < 0 || k > len(buf)-n {
			return n, Errorf(Invalid, "the reader says that it read more than the buffer holds")
		}
		n += k
		if k > 0 {
			idle = 0
		} else if idle++; idle >= maxIdleReads {
			return n, io.ErrNoProgress
		}
	}
	return n, err
}
