package membrane

import (
	"cmp"
	"context"
	"slices"
	"sync"
	"time"

	"capd/meter"
	"capd/vfs"
)

// MaxInside is how many calls may be inside one mount at once. Each may block in the
// kernel and then occupies a thread.
const MaxInside = 32

// patience is how long a call waits while no other call ends. Tests set it.
var patience = time.Second

var errNoAnswer = vfs.Errorf(vfs.Busy, "the storage here does not answer: no call on it has ended for %v; try again later", time.Second)

// Bulkhead bounds how many calls are inside a store at once. A slow disk, or a server
// that does not answer, then occupies a bounded number of threads. Use it as the
// Bulkhead of a [Guard]. A mount of a [capd/vfs/namespace.Namespace] always has one.
//
// A call takes a slot when it is given to the store, and frees it when it returns. It has
// no slot while it waits for a reader that its caller supplied, or for the consumer of a
// listing.
//
// When no slot is free, calls wait. A waiting call uses no thread. Root grants take turns,
// and so do the shares of one grant. A grant may use at most as many slots as are left
// free, so a grant that is alone gets half of them. When no call has ended for a second,
// all waiting calls answer busy, and so does each new one until a call ends.
//
// The turn in a call's context says whose call it is (see [meter.Of]). A call without a
// turn is the host's own. The host's calls may use all slots.
//
// Calls with the context of [vfs.Trying] never wait and take no slot. Calls of a batch (see
// [Hold]) take a slot but never wait for one, since a batch holds gates. Safe for concurrent
// use.
type Bulkhead struct {
	max int

	mu      sync.Mutex
	inside  int
	waiting int
	ended   time.Time // when a call ended last, or when the first began to wait
	stuck   bool      // no call has ended since some were refused as busy
	lanes   map[*meter.Meter]*lane
	turns   []*lane // those with waiting calls; the first is next
	timer   *time.Timer

	closes vfs.Janitor // closes contents
}

// inside is one call that holds a slot.
type inside struct {
	b *Bulkhead
	l *lane
}

// NewBulkhead returns a Bulkhead for at most n calls at once. 0 means [MaxInside].
func NewBulkhead(n int) *Bulkhead {
	if n <= 0 {
		n = MaxInside
	}
	return &Bulkhead{max: n, lanes: map[*meter.Meter]*lane{}}
}

// Run waits for a slot and runs do in it. It answers busy, or the error of ctx, when it
// gets no slot.
func (b *Bulkhead) Run(ctx context.Context, do func(context.Context) error) error {
	in, err := b.enter(ctx)
	if err != nil {
		return err
	}
	defer in.exit()
	return do(b.noted(ctx))
}

// noted returns ctx for a call inside b. What the call leaves for later enters b again.
func (b *Bulkhead) noted(ctx context.Context) context.Context {
	call := vfs.CallOf(ctx)
	if !call.SyncsLater() {
		return ctx
	}
	call.Bulkhead = b
	return vfs.WithCall(ctx, call)
}

// enter waits for a slot. It answers busy, or the error of ctx.
func (b *Bulkhead) enter(ctx context.Context) (inside, error) {
	m := meter.Of(ctx)
	b.mu.Lock()
	l := b.lane(m)
	if b.admits(ctx, l) {
		b.mu.Unlock()
		return inside{b, l}, nil
	}
	if b.stuck || l.stuck {
		b.forget(l)
		b.mu.Unlock()
		return inside{}, errNoAnswer
	}
	w := b.wait(l, m, false)
	b.mu.Unlock()
	var late error
	err := meter.Rest(ctx, func() { late = b.await(ctx, l, w) })
	switch {
	case late != nil:
		return inside{}, late
	case err != nil: // its grant has no turn any more
		inside{b, l}.exit()
		return inside{}, cmp.Or(ctx.Err(), errNoAnswer)
	}
	return inside{b, l}, nil
}

// await waits until w is admitted, or returns why it is not.
func (b *Bulkhead) await(ctx context.Context, l *lane, w *waiter) error {
	select {
	case <-w.admitted:
		return nil
	case <-w.refused:
		return errNoAnswer
	case <-ctx.Done():
		if b.leaves(l, w) {
			return ctx.Err()
		}
		return nil // it was admitted at the same moment
	}
}

// exit frees the slot, if p has one.
func (p inside) exit() {
	b, l := p.b, p.l
	if b == nil {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.inside--
	l.inside--
	b.stuck, l.stuck = false, false
	if b.waiting > 0 {
		b.ended = time.Now()
		l.ended = b.ended
		b.next()
	}
	b.forget(l)
}

// again takes a slot for a call that gave up its own and needs one to end. It waits as
// long as that takes. It calls refused once, when other calls would be refused as busy
// or when ctx ends.
func (p inside) again(ctx context.Context, refused func()) inside {
	b, m := p.b, meter.Of(ctx)
	b.mu.Lock()
	l := b.lane(m)
	if b.admits(ctx, l) {
		b.mu.Unlock()
		return inside{b, l}
	}
	w := b.wait(l, m, true)
	if b.stuck || l.stuck {
		w.told = true
		close(w.refused)
	}
	b.mu.Unlock()
	select {
	case <-w.admitted:
		return inside{b, l}
	case <-w.refused:
	case <-ctx.Done():
	}
	refused()
	<-w.admitted
	return inside{b, l}
}

// Everything below is called with b.mu held, except leaves and checkStuck.

// lane returns the lane of m, which may be nil.
func (b *Bulkhead) lane(m *meter.Meter) *lane {
	if m != nil {
		m = m.Grant()
	}
	l := b.lanes[m]
	if l == nil {
		l = &lane{grant: m}
		b.lanes[m] = l
	}
	return l
}

// lets admits a call of l, and reports false when the call has to wait.
func (b *Bulkhead) admits(ctx context.Context, l *lane) bool {
	ok := b.room(l) && l.waiting == 0 || vfs.CallOf(ctx).Batch != nil
	if ok {
		b.let(l)
	}
	return ok
}

// room reports whether l may have one more call inside.
func (b *Bulkhead) room(l *lane) bool {
	return b.inside < b.max && !b.full(l)
}

// full reports whether l uses as many slots as are left for others.
func (b *Bulkhead) full(l *lane) bool {
	return l.grant != nil && l.inside > 0 && l.inside >= b.max-b.inside
}

func (b *Bulkhead) let(l *lane) {
	b.inside++
	l.inside++
}

func (b *Bulkhead) wait(l *lane, m *meter.Meter, stays bool) *waiter {
	w := &waiter{admitted: make(chan struct{}), refused: make(chan struct{}), stays: stays}
	now := time.Now()
	if b.waiting == 0 {
		b.ended = now
	}
	if l.waiting == 0 {
		l.ended = now
		b.turns = append(b.turns, l)
	}
	b.waiting++
	l.push(m, w)
	if b.timer == nil {
		b.timer = time.AfterFunc(patience, b.checkStuck)
	}
	return w
}

// next admits waiting calls, in turn. Each one leaves less room for the others.
func (b *Bulkhead) next() {
	for i := 0; i < len(b.turns) && b.inside < b.max; {
		l := b.turns[i]
		if !b.room(l) {
			i++
			continue
		}
		w := l.next()
		b.drop(l, w)
		b.let(l)
		close(w.admitted)
		if l.waiting > 0 {
			b.turns = append(slices.Delete(b.turns, i, i+1), l)
		}
	}
}

// leaves removes w from the queue. It reports false when w was admitted already.
func (b *Bulkhead) leaves(l *lane, w *waiter) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if w.at == nil {
		return w.told
	}
	b.drop(l, w)
	b.forget(l)
	return true
}

func (b *Bulkhead) drop(l *lane, w *waiter) {
	l.remove(w)
	b.waiting--
	if l.waiting == 0 {
		b.turns = slices.DeleteFunc(b.turns, func(t *lane) bool { return t == l })
	}
}

func (b *Bulkhead) forget(l *lane) {
	if l.inside == 0 && l.waiting == 0 && b.lanes[l.grant] == l {
		delete(b.lanes, l.grant)
	}
}
