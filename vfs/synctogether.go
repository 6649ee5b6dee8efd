package vfs

import (
	"context"
	"errors"
	"sync"

	"capd/meter"
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
// Content that was put whole is on disk when the put returns, in any context, unless it was
// put in a [StagedDir], which is on disk when it is placed.
//
// The caller calls sync after its changes, whether or not they succeeded, and makes
// further changes only after that.
func SyncTogether(ctx context.Context) (_ context.Context, sync func() error) {
	call := CallOf(ctx)
	call.later = &together{}
	return WithCall(ctx, call), call.later.sync
}

// SyncLater leaves the Sync of u to the caller of [SyncTogether], takes over u and
// returns true. If ctx does not come from SyncTogether, it returns false. Stores call it.
// key is the same for every u of the same place.
func SyncLater(ctx context.Context, key any, u Unsynced) bool {
	t := callOf(ctx).later
	if t != nil {
		t.add(key, later{u, ctx})
	}
	return t != nil
}

// later is what waits to be synced.
type later struct {
	Unsynced
	ctx context.Context // of the change
}

// sync syncs l inside its bulkhead, since it may block like any call of the store.
func (l later) sync() (err error) {
	ctx := context.WithoutCancel(l.ctx)
	flush := func() error { return errors.Join(l.Sync(), l.Close()) }
	rest := func(ctx context.Context) error {
		_ = meter.Rest(ctx, func() { err = flush() }) // synced even if there is no turn afterwards
		return nil
	}
	if b := callOf(ctx).Bulkhead; b == nil {
		_ = rest(ctx)
	} else if late := b.Run(ctx, rest); late != nil {
		return errors.Join(late, l.Close())
	}
	return err
}

// maxTogether is how many places may wait to be synced. Each holds a descriptor.
const maxTogether = 64

// together are the places where names were changed, in the order of the first change.
type together struct {
	mu     sync.Mutex
	keys   map[any]bool
	places []later
	err    error // of those that were synced early
}

func (t *together) add(key any, u later) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.keys[key] {
		u.Close()
		return
	}
	if len(t.places) == maxTogether { // the caller is inside
		t.flush(func(l later) error { return errors.Join(l.Sync(), l.Close()) })
	}
	if t.keys == nil {
		t.keys = map[any]bool{}
	}
	t.keys[key] = true
	t.places = append(t.places, u)
}

func (t *together) flush(sync func(later) error) {
	for _, u := range t.places {
		t.err = errors.Join(t.err, sync(u))
	}
	t.keys, t.places = nil, nil
}

func (t *together) sync() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.flush(later.sync)
	err := t.err
	t.err = nil
	return err
}
