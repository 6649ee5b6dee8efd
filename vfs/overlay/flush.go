package overlay

import (
	"context"
	"sync"
	"sync/atomic"

	"capd/vfs"
)

// A change of names is on disk before it is answered. The index is synced after the
// commit, so that a revoke does not wait for the disk. Concurrent changes share a sync.

// flusher knows which lines of the index are on disk. Lines are numbered from 1.
type flusher struct {
	newest atomic.Int64 // the last line that was written

	mu   sync.Mutex // held while the index is synced or replaced
	safe int64      // the last line that is on disk
}

// flush writes the index to disk, at least up to the given line, or leaves that to the
// caller of vfs.SyncTogether.
func (o *Overlay) flush(ctx context.Context, line int64) error {
	u := unsynced{o, context.WithoutCancel(ctx), line}
	if vfs.SyncLater(ctx, o, u) {
		return nil
	}
	return u.sync(line)
}

// unsynced is the index, with lines that may not be on disk.
type unsynced struct {
	o    *Overlay
	ctx  context.Context
	line int64
}

// Sync implements vfs.Unsynced.
func (u unsynced) Sync() error { return u.sync(u.o.flusher.newest.Load()) }

// Close implements vfs.Unsynced.
func (unsynced) Close() error { return nil }

func (u unsynced) sync(line int64) error {
	f := &u.o.flusher
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.safe >= line {
		return nil
	}
	newest := f.newest.Load()
	if err := u.o.index.file.Sync(inside(u.ctx)); err != nil {
		return err
	}
	f.safe = newest
	return nil
}
