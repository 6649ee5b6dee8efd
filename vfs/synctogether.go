package vfs

import (
	"context"
	"errors"
	"sync"
)

// Unsynced is a place where a store changed names that may not be on disk yet.
type Unsynced interface {
	Sync() error // writes all changes made there so far to disk
	Close() error
}

// SyncTogether returns a context in which a store may return from a change of names
// before it is on disk. sync writes all those changes to disk. Each directory is then
// written once, however many of its names changed.
//
// It is for the host's changes of many names, such as a batch. A guest's change is on
// disk when it is answered. A store that does not call [SyncLater] needs no sync.
// Content that was put whole is on disk when the put returns, in any context.
//
// The caller calls sync after its changes, whether or not they succeeded, and makes
// further changes only after that.
func SyncTogether(ctx context.Context) (_ context.Context, sync func() error) {
	t := &together{}
	return context.WithValue(ctx, togetherKey{}, t), t.sync
}

// SyncLater is for stores. If ctx comes from [SyncTogether] it takes over u and returns
// true. key is equal for every u of the same place.
func SyncLater(ctx context.Context, key any, u Unsynced) bool {
	t, ok := ctx.Value(togetherKey{}).(*together)
	if ok {
		t.add(key, u)
	}
	return ok
}

type togetherKey struct{}

// maxTogether is how many places may wait to be synced. Each holds a descriptor.
const maxTogether = 64

// together are the places where names were changed, in the order of the first change.
type together struct {
	mu     sync.Mutex
	keys   map[any]bool
	places []Unsynced
	err    error // of those that were synced early
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
