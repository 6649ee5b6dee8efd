package editing

import (
	"context"
	"sync"
	"time"

	"capd/meter"
	"capd/vfs"
	"capd/vfs/membrane"
)

// turns has the turn of each place in a host's tree at which a file is edited, while it is.
var turns = struct {
	sync.Mutex
	at map[string]*turn
}{at: map[string]*turn{}}

// turn is what the edits of one place take one after the other.
type turn struct {
	taken chan struct{} // capacity 1: holds an element while an edit has the turn
	users int           // edits that have it or wait for it
}

// join returns the turn of a place. leave is called once.
func join(path string) (t *turn, leave func()) {
	turns.Lock()
	defer turns.Unlock()
	t = turns.at[path]
	if t == nil {
		t = &turn{taken: make(chan struct{}, 1)}
		turns.at[path] = t
	}
	t.users++
	return t, func() {
		turns.Lock()
		defer turns.Unlock()
		if t.users--; t.users == 0 {
			delete(turns.at, path)
		}
	}
}

var errTurn = vfs.Errorf(vfs.Busy, "other edits of this file do not end; try again later")

// turnOf waits for f's turn, until ctx ends. Meanwhile the call gives its own turn away. end may
// be called more than once.
func turnOf(ctx context.Context, f vfs.File) (end func(), err error) {
	path := ""
	if at, ok := membrane.PlaceOf(f); ok {
		path = at.Path
	}
	t, leave := join(path)
	got := false
	select {
	case t.taken <- struct{}{}:
		got = true
	default:
		got, err = t.wait(ctx)
	}
	end = sync.OnceFunc(func() {
		if got {
			<-t.taken
		}
		leave()
	})
	if err != nil {
		end()
	}
	return end, err
}

// wait waits for the turn. got says whether it was taken, also with an error.
func (t *turn) wait(ctx context.Context) (got bool, err error) {
	late := time.NewTimer(patience)
	defer late.Stop()
	ended := meter.Wait(ctx, func() {
		select {
		case t.taken <- struct{}{}:
			got = true
		case <-late.C:
			err = errTurn
		case <-ctx.Done():
			err = ctx.Err()
		}
	})
	if ended != nil {
		err = ended
	}
	return got, err
}
