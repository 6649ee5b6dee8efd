package meter

import (
	"context"
	"errors"
	"runtime"
	"sync"
	"sync/atomic"
	"time"
)

// A Lane is a kind of work. A host does only so much of it at once.
type Lane uint8

// The lanes.
const (
	// Light is work that waits for nothing: that of the goroutine that reads a connection. There are as many
	// turns as processors.
	Light Lane = iota
	// Work is calls that may wait in the kernel. There are eight turns for each processor. While several
	// grants or shares are active, there are half as many turns as processors, at least one.
	Work
	// Heavy is calls that may cost much. There are half as many turns as processors, at least one.
	Heavy
	lanes
)

var laneNames = [lanes]string{"light", "work", "heavy"}

// String returns the name of l in status.
func (l Lane) String() string { return laneNames[l] }

const (
	// lendWork and lendHeavy are how long a turn of Work or Heavy lasts while somebody waits for one. Then it
	// is lent to another, since its owner may be waiting in the kernel.
	lendWork, lendHeavy = 2 * time.Millisecond, 20 * time.Millisecond
	// tick is how often long turns are looked for.
	tick = time.Millisecond
	// busyAfter is how long a request waits before it is answered busy, if no other of its grant had a turn
	// meanwhile.
	busyAfter = time.Second
	// stuckLight is how long requests for Light wait while no turn is given, before there is one more turn.
	stuckLight = 5 * time.Millisecond
)

// nominal is the assumed cost of a turn until the real cost is known.
var nominal = [lanes]time.Duration{10 * time.Microsecond, 100 * time.Microsecond, 2 * time.Millisecond}

// quantum is the shortest time that a turn lasts before it yields.
var quantum = [lanes]time.Duration{Work: time.Millisecond, Heavy: 2 * time.Millisecond}

// ErrBusy is the error when no turn can be had, since calls that do not end have all turns of the grant.
var ErrBusy = errors.New("all calls that this grant may have in progress (limit threads) wait for a disk that does not answer; try again later")

// lane gives out turns.
type lane struct {
	kind          Lane
	lend          time.Duration // after how long a turn is lent; 0: never
	slots         atomic.Int64  // turns at once; those of Work and Light change, under mu
	alone, shared int64         // slots for one active grant, and for several; shared is 0 if that makes no difference
	state         atomic.Int64  // turns taken, plus oneWaiting for each waiting request

	mu    sync.Mutex
	root  *flow
	turns turnList    // of Work and Heavy, those that have a place, the oldest first
	timer *time.Timer // nil: it has never run
	armed bool
	gave  time.Time // when a turn was last given to a waiting request
	ticks int
	stuck atomic.Bool // some flow is stuck
}

const (
	oneWaiting = 1 << 32
	takenMask  = oneWaiting - 1
)

func (l *lane) init(kind Lane, slots int, root *flow) {
	l.kind, l.alone, l.root = kind, int64(slots), root
	l.slots.Store(l.alone)
	l.lend = [lanes]time.Duration{Work: lendWork, Heavy: lendHeavy}[kind]
}

// enter takes a turn if one is free and nobody waits.
func (l *lane) enter() bool {
	for {
		s := l.state.Load()
		if s >= l.slots.Load() { // or somebody waits
			return false
		}
		if l.state.CompareAndSwap(s, s+1) {
			return true
		}
	}
}

// leave gives a turn back. If somebody waits, it does nothing and returns false.
func (l *lane) leave() bool {
	for {
		s := l.state.Load()
		if s >= oneWaiting {
			return false
		}
		if l.state.CompareAndSwap(s, s-1) {
			return true
		}
	}
}

// wait requests a turn. A free turn is given before wait returns.
func (l *lane) wait(t *Turn) {
	if t.work == nil && t.ready == nil {
		t.ready = make(chan error, 1)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.push(t)
}

// again requests a turn that was given up. If t has ended, it returns false.
func (l *lane) again(t *Turn) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if t.over {
		return false
	}
	l.push(t)
	return true
}

// push adds t to the waiting requests. l.mu is held.
func (l *lane) push(t *Turn) {
	l.state.Add(oneWaiting)
	t.asked = time.Now()
	t.meter.flows[l.kind].push(t)
	l.dispatch()
	if l.ticks >= 0 && l.state.Load() >= oneWaiting && !l.armed {
		l.arm()
	}
}

// await waits until a requested turn is given.
func (l *lane) await(ctx context.Context, t *Turn) error {
	select {
	case err := <-t.ready:
		return err
	case <-ctx.Done():
		if !l.forget(t) {
			if <-t.ready == nil {
				l.end(t)
			}
		}
		return ctx.Err()
	}
}

// finish ends t for good. It returns false when t has moved to another lane.
func (l *lane) finish(t *Turn) bool {
	l.mu.Lock()
	moved := t.lane.Load() != l
	if !moved {
		t.over = true
		if t.meter.flows[l.kind].remove(t) { // a goroutine that the call left behind waits
			l.state.Add(-oneWaiting)
			t.ready <- ErrBusy
		}
	}
	l.mu.Unlock()
	if moved {
		return false
	}
	l.end(t)
	return true
}

// pass gives back t's place but not its thread.
func (l *lane) pass(t *Turn) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.vacate(t)
	l.dispatch()
}

// hand is pass for a turn that moves to the lane to: from then on it ends there. If t has ended, hand returns
// false.
func (l *lane) hand(t *Turn, to *lane) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if t.over {
		return false
	}
	l.vacate(t)
	t.lane.Store(to)
	l.dispatch()
	return true
}

// dispatch gives out the free turns. l.mu is held.
func (l *lane) dispatch() {
	for s := l.state.Load(); s >= oneWaiting && s&takenMask < l.slots.Load(); s = l.state.Load() {
		f := l.root.next()
		if f == nil {
			return
		}
		t := f.head()
		if l.kind != Light && !t.thread {
			if t.thread = l.thread(t.meter, f); !t.thread {
				continue
			}
		}
		f.remove(t)
		l.state.Add(1 - oneWaiting)
		l.give(t, f)
	}
}

// thread takes a thread of m's, or marks f as stuck. It marks f before it tries a second time: a thread that
// is given back meanwhile is then either taken here, or its giver sees the mark.
func (l *lane) thread(m *Meter, f *flow) bool {
	if m.takeThread() {
		return true
	}
	f.setStuck(true)
	l.stuck.Store(true)
	if !m.takeThread() {
		return false
	}
	f.setStuck(false)
	return true
}

// give gives t its turn. l.mu is held.
func (l *lane) give(t *Turn, f *flow) {
	now := time.Now()
	l.gave = now
	f.served = now
	f.charge(nominal[l.kind])
	t.given, t.has, t.began = now, true, true
	t.lent.Store(false)
	if l.lend > 0 {
		l.turns.push(t)
	}
	if t.ready != nil {
		t.ready <- nil
		return
	}
	t.ready = make(chan error, 1) // t may wait again
	go t.run()
}

func (t *Turn) run() {
	growStack()
	defer t.End()
	t.work.Work(t, nil)
}

// growStack gives a new goroutine the stack that a call to a store needs, while there is almost nothing on it to
// copy. Otherwise the stack is doubled in the middle of almost every call, which costs a sixth of a small one.
//
//go:noinline
func growStack() {
	var room [stackRoom]byte
	runtime.KeepAlive(&room)
}

// stackRoom is more than a call to a store uses, in bytes.
const stackRoom = 6 << 10

// end gives back what t has, if anything.
func (l *lane) end(t *Turn) {
	l.mu.Lock()
	if l.kind == Light {
		l.state.Add(-1)
	}
	l.vacate(t)
	l.dispatch()
	thread := t.dropThread()
	l.mu.Unlock()
	if thread {
		t.meter.Give(Threads, 1)
	}
}

// dropThread takes t's thread from t, and reports whether it had one. lane.mu is held.
func (t *Turn) dropThread() (had bool) {
	had, t.thread = t.thread, false
	return had
}

// vacate gives back t's place, if it has one. l.mu is held.
func (l *lane) vacate(t *Turn) {
	if !t.has {
		return
	}
	t.has = false
	f := &t.meter.flows[l.kind]
	d := time.Since(t.given)
	f.spent.Add(int64(d))
	f.charge(d - nominal[l.kind])
	if l.lend > 0 {
		l.turns.remove(t)
	}
	if l.kind != Light {
		l.state.Add(-1)
	}
}

// due reports whether t has to wait for another turn, and requests it.
func (l *lane) due(t *Turn) bool {
	if s := l.state.Load(); s < oneWaiting && !t.lent.Load() {
		return false
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if t.has && time.Since(t.given) < quantum[l.kind] || !t.has && !t.lent.Load() {
		return false
	}
	if t.over {
		return false
	}
	l.vacate(t)
	l.push(t)
	return true
}

// forget withdraws t's request. It returns false when the turn was given already.
func (l *lane) forget(t *Turn) bool {
	l.mu.Lock()
	waits := t.meter.flows[l.kind].remove(t)
	thread := false
	if waits {
		l.state.Add(-oneWaiting)
		thread = t.dropThread()
	}
	l.mu.Unlock()
	if thread {
		t.meter.Give(Threads, 1)
	}
	return waits
}

// cancel takes t out of those that wait for their first turn, and reports whether it was there.
func (l *lane) cancel(t *Turn) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if t.began || !t.meter.flows[l.kind].remove(t) {
		return false
	}
	l.state.Add(-oneWaiting)
	return true
}

func (l *lane) arm() {
	l.armed = true
	if l.timer == nil {
		l.timer = time.AfterFunc(tick, l.tick)
	} else {
		l.timer.Reset(tick)
	}
}

// tick lends the places of turns that have lasted long, and answers busy to requests that wait in vain.
func (l *lane) tick() {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := time.Now()
	if l.kind == Light {
		l.widen(now)
	}
	for t := l.turns.first; t != nil && now.Sub(t.given) > l.lend; t = l.turns.first {
		l.vacate(t)
		t.lent.Store(true)
	}
	l.ticks++
	look := l.ticks%64 == 0
	if l.shared > 0 && l.ticks%16 == 0 {
		l.press(now)
	}
	if look { // another lane may have looked for threads at the same moment
		l.lookForThreads()
	}
	l.dispatch()
	if look {
		l.root.each(func(f *flow) { l.giveUp(f, now) })
	}
	if l.armed = l.state.Load() >= oneWaiting; l.armed {
		l.arm()
	}
}

// widen adds one turn of Light when none was given for a while. The owners of the others may be stuck,
// although nothing there should wait. l.mu is held.
func (l *lane) widen(now time.Time) {
	if l.state.Load()&takenMask < l.alone {
		l.slots.Store(l.alone)
	}
	if now.Sub(l.gave) > stuckLight {
		l.slots.Add(1)
	}
}

// giveUp answers busy to those of f's own requests that have waited long for their first turn, while there
// was no thread for any of them. l.mu is held.
func (l *lane) giveUp(f *flow, now time.Time) {
	if !f.stuck || now.Sub(f.served) < busyAfter {
		return
	}
	for t, next := f.own.first, (*Turn)(nil); t != nil; t = next {
		next = t.next
		if t.began || now.Sub(t.asked) < busyAfter {
			continue
		}
		f.remove(t)
		l.state.Add(-oneWaiting)
		if t.ready != nil {
			t.ready <- ErrBusy
		} else {
			go t.work.Work(t, ErrBusy)
		}
	}
}

// unstick lets stuck flows go on if there are threads again.
func (m *Meter) unstick() {
	for i := range m.lanes {
		l := &m.lanes[i]
		if !l.stuck.Load() {
			continue
		}
		l.mu.Lock()
		l.lookForThreads()
		l.dispatch()
		l.mu.Unlock()
	}
}

// lookForThreads lets the flows go on for which there is a thread again. l.stuck stays set until all flows
// were looked at, so that a thread that is given back meanwhile causes another look. A flow without a thread
// stays stuck even if no place is free to try it, since giveUp looks only at stuck flows. l.mu is held.
func (l *lane) lookForThreads() {
	some := false
	l.root.each(func(f *flow) {
		f.setStuck(f.stuck && !f.meter.hasThread())
		some = some || f.stuck
	})
	l.stuck.Store(some)
}

// hasThread reports whether m could take a thread now.
func (m *Meter) hasThread() bool {
	full, _, _ := m.look(Threads, 0, 1)
	return full == nil
}

// takeThread takes a thread. If there is none, it wakes nobody when it gives back what it tried to take.
func (m *Meter) takeThread() bool {
	m.Force(Threads, 1)
	if full, _, _ := m.look(Threads, 0, 0); full != nil {
		m.Force(Threads, -1)
		return false
	}
	return true
}
