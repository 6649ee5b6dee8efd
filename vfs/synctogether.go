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
		b, _ := ctx.Value(bulkheadKey{}).(*Bulkhead)
		t.add(key, later{u, ctx, b})
	}
	return ok
}

// later is what waits to be synced.
type later struct {
	Unsynced
	ctx      context.Context // of the change
	bulkhead *Bulkhead       // of the change; may be nil
}

// sync syncs l inside its bulkhead, since it may block like any call of the store.
func (l later) sync() (err error) {
	ctx := context.WithoutCancel(l.ctx)
	if l.bulkhead != nil {
		in, err := l.bulkhead.enter(ctx)
		if err != nil {
			return errors.Join(err, l.Close())
		}
		defer in.exit()
	}
	_ = meter.Rest(ctx, func() { err = errors.Join(l.Sync(), l.Close()) }) // synced even if there is no turn afterwards
	return err
}

type bulkheadKey struct{}

// insideFor returns ctx for a call inside b. If ctx is from [SyncTogether], the result
// notes b.
func insideFor(ctx context.Context, b *Bulkhead) context.Context {
	if ctx.Value(togetherKey{}) == nil {
		return ctx
	}
	return context.WithValue(ctx, bulkheadKey{}, b)
}

type togetherKey struct{}

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
