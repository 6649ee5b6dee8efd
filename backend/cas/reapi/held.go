package reapi

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"sync/atomic"
	"syscall"

	"capd/vfs"
)

// held is a blob that was fetched and verified. It exists while it has users.
type held struct {
	data  []byte
	spool *os.File // instead of data
	named bool     // spool could not be removed while open
	size  int64
	users atomic.Int64
}

// inMemory returns data with one user.
func inMemory(data []byte) *held {
	h := &held{data: data, size: int64(len(data))}
	h.enter()
	return h
}

func (h *held) enter() { h.users.Add(1) }

func (h *held) leave() {
	if h.users.Add(-1) == 0 && h.spool != nil {
		h.spool.Close()
		if h.named {
			os.Remove(h.spool.Name())
		}
	}
}

// spooled returns an empty spool file with one user. Where the host can, it is removed
// when it is closed or the process ends.
func spooled(dir string, size int64) (*held, error) {
	f, err := os.CreateTemp(dir, "capd-blob-")
	if err != nil {
		return nil, err
	}
	h := &held{spool: f, size: size}
	h.named = os.Remove(f.Name()) != nil
	h.enter()
	return h, nil
}

func spoolFailed(err error) error {
	if errors.Is(err, syscall.ENOSPC) {
		return vfs.Errorf(vfs.Limit, "the disk that holds large contents while they are read is full; ask the host for room")
	}
	return vfs.Hide(err)
}

// content is a blob held open.
type content struct {
	ctx    context.Context
	held   *held
	closed atomic.Bool
}

func (c *content) Size() int64 { return c.held.size }

func (c *content) ReadAt(p []byte, off int64) (int, error) {
	if err := c.ctx.Err(); err != nil {
		return 0, err
	}
	switch {
	case c.closed.Load():
		return 0, vfs.At("", vfs.Stale)
	case off < 0:
		return 0, vfs.Errorf(vfs.Invalid, "an offset is below 0")
	case c.held.spool == nil:
		return bytes.NewReader(c.held.data).ReadAt(p, off)
	}
	n, err := c.held.spool.ReadAt(p, off)
	if err == nil || err == io.EOF {
		return n, err
	}
	if errors.Is(err, os.ErrClosed) {
		return 0, vfs.At("", vfs.Stale)
	}
	return n, vfs.Hide(err)
}

// Close may be called more than once.
func (c *content) Close() error {
	if c.closed.CompareAndSwap(false, true) {
		c.held.leave()
	}
	return nil
}
