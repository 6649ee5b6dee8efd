// Package held keeps whole contents in memory or in temporary files, for stores that
// cannot read parts of them where they are stored.
package held

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"sync"
	"sync/atomic"

	"capd/backend/internal/recent"
	"capd/hostfile"
	"capd/vfs"
)

// Blob is a content that does not change. It is dropped when the last reference to it is
// closed.
type Blob struct {
	data  bytes.Reader
	spool *hostfile.Temp // instead of data
	size  int64          // bytes
	users atomic.Int64
}

// InMemory returns a blob of data, which the caller gives up.
func InMemory(data []byte) *Blob {
	b := &Blob{size: int64(len(data))}
	b.data.Reset(data)
	b.retain()
	return b
}

// Spooled returns an empty blob in a temporary file of the host. Its content is written
// before anybody reads it.
func Spooled() (*Blob, error) {
	f, err := hostfile.NewTemp("capd-blob-*")
	if err != nil {
		return nil, err
	}
	b := &Blob{spool: f}
	b.retain()
	return b, nil
}

// Write appends to a blob that [Spooled] returned.
func (b *Blob) Write(p []byte) (int, error) {
	n, err := b.spool.WriteAt(p, b.size)
	b.size += int64(n)
	return n, err
}

// Size returns the size in bytes.
func (b *Blob) Size() int64 { return b.size }

// ReadAt implements io.ReaderAt.
func (b *Blob) ReadAt(p []byte, off int64) (int, error) {
	if b.spool == nil {
		return b.data.ReadAt(p, off)
	}
	n, err := b.spool.ReadAt(p, off)
	switch {
	case err == nil, err == io.EOF:
		return n, err
	case errors.Is(err, os.ErrClosed):
		return 0, vfs.Stale
	}
	return n, vfs.Hide(err)
}

func (b *Blob) retain() { b.users.Add(1) }

// Close gives up one reference.
func (b *Blob) Close() error {
	if b.users.Add(-1) == 0 && b.spool != nil {
		return b.spool.Close()
	}
	return nil
}

// Cache opens blobs and keeps those that were used last. Its methods may be called from
// several goroutines at once.
type Cache[K comparable] struct {
	kept *recent.Cache[K, *Blob]

	mu       sync.Mutex
	fetching map[K]chan struct{} // closed once the blob was fetched or could not be
}

// NewCache returns a cache of at most weight.
func NewCache[K comparable](weight int64) *Cache[K] {
	return &Cache[K]{kept: recent.New[K](weight, func(b *Blob) { b.Close() }), fetching: map[K]chan struct{}{}}
}

// Open returns a reference to the blob called k. If it is not kept, fetch returns it with
// its weight. Other calls for k wait meanwhile.
func (c *Cache[K]) Open(ctx context.Context, k K, fetch func() (b *Blob, weight int64, err error)) (*Blob, error) {
	for {
		if b, ok := c.kept.Get(k, (*Blob).retain); ok {
			return b, nil
		}
		other, end := c.begin(k)
		if other == nil {
			defer end()
			return c.fetch(k, fetch)
		}
		select {
		case <-other:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// begin returns a channel that is closed when another call has fetched k. If there is no
// such call it returns nil, and the caller calls end when it has fetched k.
func (c *Cache[K]) begin(k K) (other <-chan struct{}, end func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if other := c.fetching[k]; other != nil {
		return other, nil
	}
	mine := make(chan struct{})
	c.fetching[k] = mine
	return nil, func() {
		c.mu.Lock()
		delete(c.fetching, k)
		c.mu.Unlock()
		close(mine)
	}
}

func (c *Cache[K]) fetch(k K, fetch func() (*Blob, int64, error)) (*Blob, error) {
	if b, ok := c.kept.Get(k, (*Blob).retain); ok { // fetched meanwhile
		return b, nil
	}
	b, weight, err := fetch()
	if err != nil {
		return nil, err
	}
	b.retain()
	c.kept.Add(k, b, weight)
	return b, nil
}

// Clear drops everything that is kept.
func (c *Cache[K]) Clear() { c.kept.Clear() }
