package archive

import (
	"io"
	"sync"

	"capd/vfs"
)

// forward is a content that is unpacked from its beginning. It is read again from there for an offset that has passed.
type forward struct {
	open func() (io.ReadCloser, error)
	size int64

	mu sync.Mutex
	r  io.ReadCloser
	at int64 // offset of what r reads next
}

// ReadAt implements io.ReaderAt. With the last byte it answers whether the content has the checksum that the archive says.
func (c *forward) ReadAt(p []byte, off int64) (n int, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case off < 0:
		return 0, vfs.ErrOffset
	case off >= c.size:
		return 0, io.EOF
	}
	if err := c.seek(off); err != nil {
		return 0, reading(err)
	}
	want := p[:min(int64(len(p)), c.size-off)]
	n, err = io.ReadFull(c.r, want)
	c.at += int64(n)
	switch {
	case err != nil:
		c.drop()
		if err == io.EOF {
			err = io.ErrUnexpectedEOF
		}
		return n, reading(err)
	case c.at == c.size:
		err = c.whole()
	}
	if err == nil && n < len(p) {
		err = io.EOF
	}
	return n, err
}

func (c *forward) seek(off int64) (err error) {
	if c.r != nil && off < c.at {
		c.drop()
	}
	if c.r == nil {
		if c.r, err = c.open(); err != nil {
			return err
		}
	}
	n, err := io.CopyN(io.Discard, c.r, off-c.at)
	if c.at += n; err != nil {
		c.drop()
	}
	return err
}

// whole reads the end of the content.
func (c *forward) whole() error {
	defer c.drop()
	var more [1]byte
	switch n, err := io.ReadFull(c.r, more[:]); {
	case n > 0:
		return vfs.Errorf(vfs.Invalid, "the archive is damaged: an entry is longer than it says")
	case err != io.EOF:
		return reading(err)
	}
	return nil
}

func (c *forward) drop() {
	if c.r != nil {
		c.r.Close()
	}
	c.r, c.at = nil, 0
}

// Close implements io.Closer.
func (c *forward) Close() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.drop()
	return nil
}
