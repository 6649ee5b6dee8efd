package physical

import (
	"context"
	"io"
	"os"
	"sync/atomic"
	"time"

	"capd/vfs"
)

// content is a file held open.
type content struct {
	ctx    context.Context
	s      *Store
	f      *os.File
	size   int64
	known  versionKey // of the file when it was opened; zero if a later write may not show in it
	closed atomic.Bool
}

var (
	_ vfs.Opener  = (*File)(nil)
	_ vfs.Learner = (*content)(nil)
)

// Open keeps one descriptor open until the content is closed. It answers busy while the
// store has its maximum of contents open.
func (f *File) Open(ctx context.Context) (vfs.Content, error) {
	if f.s.contents.Add(1) > f.s.maxContents {
		f.s.contents.Add(-1)
		return nil, vfs.Errorf(vfs.Busy, "too many files are held open; close one or try again")
	}
	file, a, err := f.open(ctx, os.O_RDONLY)
	if err != nil {
		f.s.contents.Add(-1)
		return nil, err
	}
	c := &content{ctx: ctx, s: f.s, f: file, size: a.size}
	if left, ever := a.settlesIn(time.Now()); ever && left <= 0 && !process.writing.to(a.fileKey()) {
		c.known = a.versionKey()
	}
	return c, nil
}

// Learn implements vfs.Learner. It keeps the version if the file is as it was when it was opened.
func (c *content) Learn(v vfs.Version) {
	if c.known == (versionKey{}) || c.closed.Load() || c.s.isClosed() {
		return
	}
	if a, err := attrOfFile(c.f); err == nil && a.versionKey() == c.known && !process.writing.to(a.fileKey()) {
		c.s.versions.Add(c.known, v, 1)
	}
}

func (c *content) Size() int64 { return c.size }

func (c *content) ReadAt(p []byte, off int64) (int, error) {
	if err := c.ctx.Err(); err != nil {
		return 0, err
	}
	if c.closed.Load() || c.s.isClosed() {
		return 0, vfs.At("", vfs.Stale)
	}
	return readAt(c.f, p, off)
}

// Clone implements vfs.Cloner where the file system has reflinks.
func (c *content) Clone(fd uintptr) error {
	switch {
	case c.ctx.Err() != nil:
		return c.ctx.Err()
	case c.closed.Load() || c.s.isClosed():
		return vfs.At("", vfs.Stale)
	}
	if err := cloneFile(fd, c.f); err != nil {
		return vfs.Errorf(vfs.Unsupported, "the file system cannot share the content; copy it")
	}
	return nil
}

// Close may be called more than once.
func (c *content) Close() error {
	if c.closed.CompareAndSwap(false, true) {
		c.f.Close()
		c.s.contents.Add(-1)
	}
	return nil
}

// readAt reads with the rules of vfs.File.
func readAt(r io.ReaderAt, p []byte, off int64) (int, error) {
	n, err := vfs.ReadAt(r, p, off)
	if err == nil || err == io.EOF {
		return n, err
	}
	return n, explain(err)
}
