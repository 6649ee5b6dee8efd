package meter

import (
	"context"
	"sync/atomic"
	"time"
)

// A Turn is one to work in a lane. The zero Turn is ready for use, by one goroutine at a time.
type Turn struct {
	meter *Meter
	lane  atomic.Pointer[lane]
	fast  bool        // it was taken without waiting, in Light
	away  atomic.Bool // it waits, or its owner does

	// Under lane.mu.
	thread     bool // it counts as a thread
	given      time.Time
	has        bool // a place in the lane
	began      bool // it was given once
	over       bool // it has ended
	asked      time.Time
	ready      chan error // made when a goroutine waits
	work       Worker     // or what is to run
	prev, next *Turn      // in the list in
	in         *turnList
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
	if t.ready == nil {
		t.ready = make(chan error, 1)
	}
	l.wait(t)
	for <-t.ready != nil { // which does not happen: Light asks for no threads
		l.wait(t)
	}
}

// sampled is of how many turns of Light that nobody waited for one is measured.
const sampled = 64

// longLight is the most that a measured turn of Light counts for: its goroutine may have waited for a processor in
// between.
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

// Go runs w in a turn of l, now or when there is one, in the order of the calls of Go for this
// meter.
func (m *Meter) Go(l Lane, w Worker) {
	t := &Turn{meter: m, work: w}
	t.lane.Store(&m.lanes[l])
	m.turn(l)
	m.lanes[l].wait(t)
}

// Begin waits for a turn of l, until ctx ends. The context that it returns has the turn, for [Yield]
// and [Wait]; End gives it back.
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

// End gives a turn of Work or Heavy back. A goroutine that still waits to have it again goes on without it.
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

// Contended reports whether somebody waits for a turn of the same lane.
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

// Context returns ctx with t, for [Yield] and [Wait].
func (t *Turn) Context(ctx context.Context) context.Context { return &turnContext{ctx, t} }

// TurnOf returns the turn that ctx has, or nil.
func TurnOf(ctx context.Context) *Turn {
	t, _ := ctx.Value(turnKey{}).(*Turn)
	return t
}

// Of returns the meter whose turn ctx has, nil for none.
func Of(ctx context.Context) *Meter {
	if t := TurnOf(ctx); t != nil {
		return t.meter
	}
	return nil
}

// Yield lets others go first, if any wait and ctx's turn has lasted long enough. It answers ctx's error. It
// is for loops that may take long, every millisecond or so. Without a turn it only looks at
// ctx.
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

// Wait gives ctx's turn up, runs f, which waits for somebody else and not for the disk, and waits for a turn again. When
// too many wait already it answers a [*Full] and does not run f. Otherwise it answers ctx's error.
func Wait(ctx context.Context, f func()) error {
	if t := TurnOf(ctx); t != nil {
		return t.Wait(ctx, f)
	}
	f()
	return ctx.Err()
}

// Wait is the function Wait for a turn that ctx need not have.
func (t *Turn) Wait(ctx context.Context, f func()) error {
	if !t.away.CompareAndSwap(false, true) { // another goroutine of the call's waits already
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

// Rest is Wait for an f that waits for the disk: the call still counts as a thread meanwhile, so that the number of
// threads stays bounded.
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

// Move changes ctx's turn for one of another lane.
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
