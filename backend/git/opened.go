package git

import (
	"context"
	"sync"

	"capd/vfs"
)

// opened is a vfs.Content.
type opened struct {
	ctx  context.Context
	size int64

	mu sync.RWMutex // after release another opener may use what it had
	b  *blob        // nil after Close
}

func (o *opened) ReadAt(p []byte, off int64) (int, error) {
	o.mu.RLock()
	defer o.mu.RUnlock()
	switch {
	case off < 0:
		return 0, vfs.ErrOffset
	case o.b == nil:
		return 0, vfs.Stale
	case o.ctx.Err() != nil:
		return 0, o.ctx.Err()
	}
	return o.b.ReadAt(p, off)
}

func (o *opened) Size() int64 { return o.size }

func (o *opened) Close() error {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.b != nil {
		o.b.release()
		o.b = nil
	}
	return nil
}
