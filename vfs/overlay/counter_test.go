package overlay_test

import (
	"context"
	"io"
	"sync/atomic"

	"capd/vfs"
)

// counter counts the bytes that are put into a directory, and into those made in it.
type counter struct {
	vfs.Dir
	bytes atomic.Int64
	now   atomic.Int64 // files that are being put
	crowd atomic.Bool  // several were at once
	above *counter
	made  *counter // the last one in it
}

func (c *counter) Mkdir(ctx context.Context, name string) (vfs.Dir, error) {
	d, err := c.Dir.Mkdir(ctx, name)
	if err != nil {
		return nil, err
	}
	c.made = &counter{Dir: d, above: c}
	return c.made, nil
}

func (c *counter) Replace(ctx context.Context, name string, r io.Reader, cond vfs.If) (vfs.Version, error) {
	if c.now.Add(1) > 1 {
		c.crowd.Store(true)
	}
	defer c.now.Add(-1)
	return c.Dir.Replace(ctx, name, &countedReader{r, c}, cond)
}

type countedReader struct {
	io.Reader
	by *counter
}

func (r *countedReader) Read(p []byte) (int, error) {
	n, err := r.Reader.Read(p)
	for c := r.by; c != nil; c = c.above {
		c.bytes.Add(int64(n))
	}
	return n, err
}
