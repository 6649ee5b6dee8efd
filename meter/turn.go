package meter

import (
	"context"
	"sync/atomic"
	"time"
)

// A Turn is one to work in a lane. The zero Turn is ready for use, by one goroutine at a time.
type Turn struct {
	meter  *Meter
	lane   *lane
	fast   bool // it was taken without waiting, in Light
	thread bool // it counts as a thread

	// Under lane.mu.
	given      time.Time
	has        bool // a place in the lane
	asked      time.Time
	ready      chan error // made when a goroutine waits
	work       Worker     // or what is to run
	prev, next *Turn
	lent       atomic.Bool // its place was given to another
}

// A Worker is what [Meter.Go] runs.
type Worker interface {
	// Work is called in a goroutine of the lane's; t ends when it returns. err is ErrBusy when
	// there was no turn.
	Work(t *Turn, err error)
}

// Enter waits for a turn of Light for the meter's owner; Leave gives it back. It is for work that
// waits for nothing.
func (m *Meter) Enter(t *Turn) {
	l := &m.lanes[Light]
	t.meter, t.lane = m, l
	n := m.flows[Light].turns.Add(1)
	if l.enter() {
		t.fast = true
		if n%sampled == 0 {
			t.given = time.Now()
		}
		return
	}
	if t.ready == nil {
		t.ready = make(chan error, 1)
	}
	l.wait(t)
	<-t.ready
}

// sampled is of how many turns of Light that nobody waited for one is measured.
const sampled = 64

// Leave gives back a turn of Light.
func (t *Turn) Leave() {
	f := &t.meter.flows[Light]
	if t.fast {
		t.fast = false
		if !t.given.IsZero() {
			f.spent.Add(int64(time.Since(t.given)) * sampled)
			t.given = time.Time{}
		}
		if t.lane.leave() {
			return
		}
	}
	t.lane.end(t)
}

// Go runs w in a turn of l, now or when there is one, in the order of the calls of Go for this
// meter.
func (m *Meter) Go(l Lane, w Worker) {
	t := &Turn{meter: m, lane: &m.lanes[l], work: w}
	m.flows[l].turns.Add(1)
	t.lane.wait(t)
}

// Begin waits for a turn of l, until ctx ends. The context that it returns has the turn, for [Yield]
// and [Wait]; End gives it back.
func (m *Meter) Begin(ctx context.Context, l Lane) (context.Context, *Turn, error) {
	t := &Turn{meter: m, lane: &m.lanes[l], ready: make(chan error, 1)}
	m.flows[l].turns.Add(1)
	t.lane.wait(t)
	if err := t.await(ctx); err != nil {
		return nil, nil, err
	}
	return t.Context(ctx), t, nil
}

// End gives a turn of Work or Heavy back.
func (t *Turn) End() { t.lane.end(t) }

type turnKey struct{}

type turnContext struct {
	context.Context
	turn *Turn
}

func (c *turnContext) Value(key any) any {
	if key == (turnKey{}) {
		return c.turn
	}
	return c.Context.Value(key)
}

// Context returns ctx with t, for [Yield] and [Wait].
func (t *Turn) Context(ctx context.Context) context.Context { return &turnContext{ctx, t} }

func turnOf(ctx context.Context) *Turn {
	t, _ := ctx.Value(turnKey{}).(*Turn)
	return t
}

// Of returns the meter whose turn ctx has, nil for none.
func Of(ctx context.Context) *Meter {
	if t := turnOf(ctx); t != nil {
		return t.meter
	}
	return nil
}

// Yield lets others go first, if any wait and ctx's turn has lasted long enough. It answers ctx's error. It
// is for loops that may take long, every millisecond or so. Without a turn it only looks at
// ctx.
func Yield(ctx context.Context) error {
	if t := turnOf(ctx); t != nil && t.lane.due(t) {
		return t.await(ctx)
	}
	return ctx.Err()
}

// Wait runs f, which waits for somebody else and not for the disk, while ctx's turn is others' to have. Then it waits
// for another, and answers ErrBusy, or ctx's error, when there is none.
func Wait(ctx context.Context, f func()) error {
	t := turnOf(ctx)
	if t == nil {
		f()
		return ctx.Err()
	}
	return t.Wait(ctx, f)
}

// Wait is the function Wait for a turn that ctx need not have.
func (t *Turn) Wait(ctx context.Context, f func()) error {
	t.lane.end(t)
	f()
	t.lane.wait(t)
	return t.await(ctx)
}

// await waits for a turn that was asked for.
func (t *Turn) await(ctx context.Context) error {
	select {
	case err := <-t.ready:
		return err
	case <-ctx.Done():
		if !t.lane.forget(t) {
			if <-t.ready == nil {
				t.lane.end(t)
			}
		}
		return ctx.Err()
	}
}
