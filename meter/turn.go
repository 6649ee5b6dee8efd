package meter

import (
	"context"
	"sync/atomic"
	"time"
)

// A Turn is permission to work in a lane. The zero Turn is ready for use, by one goroutine at a
// time.
type Turn struct {
	meter *Meter
	lane  atomic.Pointer[lane]
	fast  bool        // taken in Light without waiting
	away  atomic.Bool // it waits for another turn, or its owner does

	// lane.mu guards the fields below.
	thread     bool // it holds one of Threads
	given      time.Time
	has        bool // it has a place in the lane
	began      bool // it was given at least once
	over       bool // it has ended
	asked      time.Time
	ready      chan error // receives the turn, if a goroutine waits for it
	work       Worker     // otherwise what is to run
	prev, next *Turn      // its neighbours in the list in
	in         *turnList
	lent       atomic.Bool // its place was lent to another
}

// A Passer is a [Worker] for whose end others wait in a line.
type Passer interface {
	// Pass lets the next in the line start now. It may be called at any time, by any goroutine.
	Pass()
}

// Pass lets those start that wait in a line for the end of what ctx's turn was given to; see [Passer].
func Pass(ctx context.Context) {
	if t := TurnOf(ctx); t != nil {
		if p, ok := t.work.(Passer); ok {
			p.Pass()
		}
	}
}

// A Worker is what [Meter.Go] runs.
type Worker interface {
	// Work is called in a goroutine of the lane. t ends when it returns. err is ErrBusy when there
	// was no turn. It is not called after a [Turn.Cancel] that reported true.
	Work(t *Turn, err error)
}

// Enter waits for a turn of Light for m. Leave gives it back. It is for work that does not wait.
func (m *Meter) Enter(t *Turn) {
	l := &m.lanes[Light]
	t.meter = m
	t.lane.Store(l)
	n := m.turn(Light)
	if l.enter() {
		t.fast = true
		if n%sampled == 0 {
			t.given = time.Now()
		}
		return
	}
	l.wait(t)
	for <-t.ready != nil { // does not happen, since Light needs no threads
		l.wait(t)
	}
}

// sampled is how few turns of Light that did not wait are measured: one in sampled.
const sampled = 64

// longLight is the most that a measured turn of Light counts for, since its goroutine may have
// waited for a processor.
const longLight = 200 * time.Microsecond

// Leave gives back a turn of Light.
func (t *Turn) Leave() {
	f := &t.meter.flows[Light]
	if t.fast {
		t.fast = false
		if !t.given.IsZero() {
			f.spent.Add(int64(min(time.Since(t.given), longLight)) * sampled)
			t.given = time.Time{}
		}
		if t.lane.Load().leave() {
			return
		}
	}
	t.lane.Load().end(t)
}

// Go runs w in a turn of l, as soon as there is one. Calls for the same meter run in the order of
// Go.
func (m *Meter) Go(l Lane, w Worker) { m.GoIn(new(Turn), l, w) }

// GoIn is Go with a zero Turn of the caller's, for [Turn.Cancel].
func (m *Meter) GoIn(t *Turn, l Lane, w Worker) {
	t.meter, t.work = m, w
	t.lane.Store(&m.lanes[l])
	m.turn(l)
	m.lanes[l].wait(t)
}

// Cancel takes t out of those that wait, if its turn has not come yet, and reports whether it did. Then the
// Worker is not called any more. It may be called by any goroutine.
func (t *Turn) Cancel() bool {
	l := t.lane.Load()
	return l != nil && l.cancel(t)
}

// Begin waits for a turn of l, until ctx ends. The context that it returns carries the turn, for
// [Yield] and [Wait]. End gives the turn back.
func (m *Meter) Begin(ctx context.Context, l Lane) (context.Context, *Turn, error) {
	t := &Turn{meter: m, ready: make(chan error, 1)}
	t.lane.Store(&m.lanes[l])
	m.turn(l)
	m.lanes[l].wait(t)
	if err := m.lanes[l].await(ctx, t); err != nil {
		return nil, nil, err
	}
	return t.Context(ctx), t, nil
}

// End gives back a turn of Work or Heavy. A goroutine that still waits to have it again goes on
// without it.
func (t *Turn) End() {
	for {
		l := t.lane.Load()
		if l.finish(t) {
			return
		}
	}
}

// Lane returns the lane that t is in.
func (t *Turn) Lane() Lane { return t.lane.Load().kind }

// Contended reports whether somebody waits for a turn of t's lane.
func (t *Turn) Contended() bool { return t.lane.Load().state.Load() >= oneWaiting }

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

// Context returns a context that carries t, for [Yield] and [Wait].
func (t *Turn) Context(ctx context.Context) context.Context { return &turnContext{ctx, t} }

// TurnOf returns the turn that ctx carries, or nil.
func TurnOf(ctx context.Context) *Turn {
	t, _ := ctx.Value(turnKey{}).(*Turn)
	return t
}

// Of returns the meter of ctx's turn, or nil.
func Of(ctx context.Context) *Meter {
	if t := TurnOf(ctx); t != nil {
		return t.meter
	}
	return nil
}

// Yield lets others go first, if any wait and ctx's turn has lasted long enough. Long loops should
// call it about once a millisecond. It answers ctx's error. Without a turn it only checks ctx.
func Yield(ctx context.Context) error {
	t := TurnOf(ctx)
	if t == nil || !t.away.CompareAndSwap(false, true) {
		return ctx.Err()
	}
	defer t.away.Store(false)
	if l := t.lane.Load(); l.due(t) {
		return l.await(ctx, t)
	}
	return ctx.Err()
}

// Wait gives up ctx's turn, runs f, and waits for a turn again. f waits for somebody else, not for
// the disk. When too many calls wait already, Wait answers a [*Full] and does not run f. Otherwise
// it answers ctx's error.
func Wait(ctx context.Context, f func()) error {
	if t := TurnOf(ctx); t != nil {
		return t.Wait(ctx, f)
	}
	f()
	return ctx.Err()
}

// Wait is the function Wait for t, which ctx need not carry.
func (t *Turn) Wait(ctx context.Context, f func()) error {
	if !t.away.CompareAndSwap(false, true) { // another goroutine of the call waits already
		f()
		return ctx.Err()
	}
	defer t.away.Store(false)
	if err := t.meter.Take(Waits, 1); err != nil {
		return err
	}
	l := t.lane.Load()
	l.end(t)
	func() {
		defer t.meter.Give(Waits, 1)
		f()
	}()
	if !l.again(t) {
		return ctx.Err()
	}
	return l.await(ctx, t)
}

// Rest is Wait for an f that waits for the disk. The call still counts as a thread meanwhile, so
// the number of threads stays bounded.
func Rest(ctx context.Context, f func()) error {
	t := TurnOf(ctx)
	if t == nil || !t.away.CompareAndSwap(false, true) {
		f()
		return ctx.Err()
	}
	defer t.away.Store(false)
	l := t.lane.Load()
	l.pass(t)
	f()
	if !l.again(t) {
		return ctx.Err()
	}
	return l.await(ctx, t)
}

// Move exchanges ctx's turn for one of another lane.
func Move(ctx context.Context, to Lane) error {
	t := TurnOf(ctx)
	if t == nil || t.lane.Load().kind == to || !t.away.CompareAndSwap(false, true) {
		return ctx.Err()
	}
	defer t.away.Store(false)
	l := &t.meter.lanes[to]
	if !t.lane.Load().hand(t, l) || !l.again(t) {
		return ctx.Err()
	}
	t.meter.turn(to)
	return l.await(ctx, t)
}
