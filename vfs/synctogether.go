package vfs

import (
	"context"
	"errors"
	"sync"
)

// Unsynced is where a store changed names: in place, and perhaps not on disk.
type Unsynced interface {
	Sync() error // writes all changes made there so far to disk
	Close() error
}

// SyncTogether returns a context in which a store may answer a change of names
// before it is on disk, and sync, which writes all of those to disk. However many
// names of a directory change, it is written once. It is for the host's changes
// of many names, such as a batch: what a guest asks for is on disk when it is
// answered. A store that does not call [SyncLater] needs no sync.
//
// The caller calls sync when it has made its changes, whether or not they
// succeeded, and makes more only after that. Contents that are put whole are on
// disk when that has answered, in any context.
func SyncTogether(ctx context.Context) (_ context.Context, sync func() error) {
	t := &together{}
	return context.WithValue(ctx, togetherKey{}, t), t.sync
}

// SyncLater is for stores. It takes over u, where names were changed, and reports
// true when ctx is one of [SyncTogether]. Of the same place every u has an equal key.
func SyncLater(ctx context.Context, key any, u Unsynced) bool {
	t, ok := ctx.Value(togetherKey{}).(*together)
	if ok {
		t.add(key, u)
	}
	return ok
}

type togetherKey struct{}

// maxTogether is how many places wait to be synced: each holds a descriptor.
const maxTogether = 64

// together are the places where names were changed, in the order in which they
// came first.
type together struct {
	mu     sync.Mutex
	keys   map[any]bool
	places []Unsynced
	err    error // of those that did not wait
}

func (t *together) add(key any, u Unsynced) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.keys[key] {
		u.Close()
		return
	}
	if len(t.places) == maxTogether {
		t.flush()
	}
	if t.keys == nil {
		t.keys = map[any]bool{}
	}
	t.keys[key] = true
	t.places = append(t.places, u)
}

func (t *together) flush() {
	for _, u := range t.places {
		t.err = errors.Join(t.err, u.Sync(), u.Close())
	}
	t.keys, t.places = nil, nil
}

func (t *together) sync() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.flush()
	err := t.err
	t.err = nil
	return err
}
