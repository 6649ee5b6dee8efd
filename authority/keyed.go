package authority

import (
	"context"
	"sync"
)

// keyed is a lock for each key.
type keyed struct {
	mu   sync.Mutex
	held map[[32]byte]chan struct{} // closed when the key is free
}

// lock waits for a key, and locks it until unlock is called.
func (k *keyed) lock(ctx context.Context, key [32]byte) (unlock func(), err error) {
	for {
		k.mu.Lock()
		other := k.held[key]
		if other == nil {
			free := make(chan struct{})
			if k.held == nil {
				k.held = map[[32]byte]chan struct{}{}
			}
			k.held[key] = free
			k.mu.Unlock()
			return func() {
				k.mu.Lock()
				delete(k.held, key)
				k.mu.Unlock()
				close(free)
			}, nil
		}
		k.mu.Unlock()
		select {
		case <-other:
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
}
