package overlay

import (
	"context"
	"sync"

	"capd/vfs"
)

// copies are the files of the lower tree being copied. Each counts as staged in the
// meters of its change, so nobody copies more at once than the quota could store.
type copies struct {
	mu    sync.Mutex
	n     int
	ended chan struct{} // closed when one ends
}

func newCopies() copies { return copies{ended: make(chan struct{})} }

// begin counts a copy of n bytes for the change that ctx belongs to. If there is no
// room beside other copies it waits for them. The caller calls end when the copy is in
// the tree or removed.
func (c *copies) begin(ctx context.Context, n int64) (end func(), err error) {
	for {
		c.mu.Lock()
		unstage, err := vfs.Stage(ctx, n)
		if err == nil {
			c.n++
		}
		others, ended := c.n > 0, c.ended
		c.mu.Unlock()
		switch {
		case err == nil:
			return func() { unstage(); c.end() }, nil
		case !others || vfs.CodeOf(err) != vfs.Busy:
			return nil, err
		}
		select {
		case <-ended:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

func (c *copies) end() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.n--
	close(c.ended)
	c.ended = make(chan struct{})
}
