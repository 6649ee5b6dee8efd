package authority

import (
	"context"
	"runtime"
	"sync"
)

// turns bounds the heavy calls that run at once for one root grant and all that
// was shared from it, on all its connections: half of the processors, so that
// whoever asks for much on many connections leaves the host what it needs to
// answer others.
type turns struct{ looks, changes chan struct{} }

func newTurns() turns {
	n := max(1, runtime.GOMAXPROCS(0)/2)
	return turns{make(chan struct{}, n), make(chan struct{}, n)}
}

// Look waits for a turn to look at much, until ctx ends; done gives it back.
func (g *grant) Look(ctx context.Context) (done func(), err error) {
	return wait(ctx, g.root.turns.looks)
}

// Change is Look for a change that may need a file's version.
func (g *grant) Change(ctx context.Context) (done func(), err error) {
	return wait(ctx, g.root.turns.changes)
}

func wait(ctx context.Context, turns chan struct{}) (done func(), err error) {
	select {
	case turns <- struct{}{}:
		return sync.OnceFunc(func() { <-turns }), nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}
