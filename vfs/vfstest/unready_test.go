package vfstest_test

import (
	"context"
	"sync"

	"capd/vfs"
)

// hasty commits before it is ready.
type hasty struct{ vfs.Dir }

func (d hasty) Create(ctx context.Context, name string) (f vfs.File, err error) {
	err = vfs.Commit(ctx, vfs.Effect{Nodes: 1}, func() (vfs.Effect, error) {
		f, err = d.Dir.Create(context.Background(), name)
		return vfs.Effect{Nodes: 1}, err
	})
	return f, err
}

// stubborn makes a change that was refused.
type stubborn struct{ vfs.Dir }

func (d stubborn) Mkdir(ctx context.Context, name string) (vfs.Dir, error) {
	if vfs.NeedsReady(ctx) {
		_ = vfs.Ready(ctx, vfs.Staged{})
		ctx = context.Background()
	}
	return d.Dir.Mkdir(ctx, name)
}

// locking makes one node at a time, while others wait to be ready as well.
type locking struct {
	vfs.Dir
	mu sync.Mutex
}

func (d *locking) Create(ctx context.Context, name string) (vfs.File, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.Dir.Create(ctx, name)
}

func (d *locking) Mkdir(ctx context.Context, name string) (vfs.Dir, error) {
	if !d.mu.TryLock() {
		return nil, vfs.Busy
	}
	defer d.mu.Unlock()
	return d.Dir.Mkdir(ctx, name)
}
