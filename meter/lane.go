package meter

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"
)

// A Lane is a kind of work, of which a host does so much at once.
type Lane uint8

// The lanes.
const (
	// Light is work that waits for nothing: what the goroutine does that reads a
	// connection. There are as many turns as processors.
	Light Lane = iota
	// Work is calls that may wait in the kernel. There are eight turns for each processor, and for half of the
	// processors, and one at least, when several grants, or shares, do something.
	Work
	// Heavy is calls that may cost much: half of the processors, and one at least.
	Heavy
	lanes
)

var laneNames = [lanes]string{"light", "work", "heavy"}

// String returns the name that status has for l.
func (l Lane) String() string { return laneNames[l] }

// Times.
const (
	// lendAfter is how long a turn of Work or Heavy lasts at most while somebody waits for one:
	// whoever has it may be waiting in the kernel. Then another gets it.
	lendWork, lendHeavy = 2 * time.Millisecond, 20 * time.Millisecond
	// tick is how often that is looked at.
	tick = time.Millisecond
	// busyAfter is how long somebody waits for a turn while nobody of the same grant has had one.
	busyAfter = time.Second
	// stuckLight is how long nobody gets a turn of Light, while somebody waits, before there is one more.
	stuckLight = 5 * time.Millisecond
)

// nominal is what a turn is taken to cost until it is known.
var nominal = [lanes]time.Duration{10 * time.Microsecond, 100 * time.Microsecond, 2 * time.Millisecond}

// quantum is how long a turn lasts at least before it yields.
var quantum = [lanes]time.Duration{Work: time.Millisecond, Heavy: 2 * time.Millisecond}

// ErrBusy is why there is no turn: all that this grant has are taken by calls which do not end.
var ErrBusy = errors.New("all calls that this grant may have in progress (limit threads) wait for a disk that does not answer; try again later")

// lane hands out turns.
type lane struct {
	kind          Lane
	lend          time.Duration // 0: never
	slots         atomic.Int64  // of Work and Light they change, under mu
	alone, shared int64         // how many for one grant, and for several; shared is 0 where that is the same
	state         atomic.Int64  // turns taken, and waiting*oneWaiting

	mu    sync.Mutex
	root  *flow
	turns turnList    // of Work and Heavy that have a place, the oldest first
	timer *time.Timer // nil: it never ran
	armed bool
	gave  time.Time // a turn, to somebody who waited
	ticks int
	stuck atomic.Bool // some flow is
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

// enter takes a turn if there is one and nobody waits for it.
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

// leave gives a turn back. It reports false, and has not, when somebody waits for it.
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

// wait asks for a turn. When there is one it is given before wait returns.
func (l *lane) wait(t *Turn) {
	if t.work == nil && t.ready == nil {
		t.ready = make(chan error, 1)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.push(t)
}

// again is wait for a turn that was given up, unless it has ended: then it reports false.
func (l *lane) again(t *Turn) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if t.over {
		return false
	}
	l.push(t)
	return true
}

// push puts t among those who wait. l.mu is held.
func (l *lane) push(t *Turn) {
	l.state.Add(oneWaiting)
	t.asked = time.Now()
	t.meter.flows[l.kind].push(t)
	l.dispatch()
	if l.ticks >= 0 && l.state.Load() >= oneWaiting && !l.armed {
		l.arm()
	}
}

// await waits for a turn that was asked for.
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

// finish is end for good. It reports false when t has moved to another lane.
func (l *lane) finish(t *Turn) bool {
	l.mu.Lock()
	moved := t.lane.Load() != l
	if !moved {
		t.over = true
		if t.meter.flows[l.kind].remove(t) { // a goroutine waits that the call left behind
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

// pass gives back t's place, and not its thread.
func (l *lane) pass(t *Turn) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.vacate(t)
	l.dispatch()
}

// hand is pass for a turn that moves to another lane, unless it has ended: then it reports false. From then on
// whoever ends it does so there.
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

// dispatch gives what turns there are. l.mu is held.
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

// thread takes a thread of m's, or notes that f is stuck. That is said before it is asked for a second
// time: whoever gives one back either comes before that, or sees it.
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
	t.ready = make(chan error, 1) // it may wait again
	go t.run()
}

func (t *Turn) run() {
	defer t.End()
	t.work.Work(t, nil)
}

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

// dropThread reports whether t had a thread, which it has no more. lane.mu is held.
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

// due reports whether t is to wait for another turn, and asks for it.
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

// forget takes back what t asks for, and reports false when it was given already.
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

func (l *lane) arm() {
	l.armed = true
	if l.timer == nil {
		l.timer = time.AfterFunc(tick, l.tick)
	} else {
		l.timer.Reset(tick)
	}
}

// tick lends the places of those that have had them for long, and tells busy who waits in vain.
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
	if look { // another lane may have asked for threads in the moment in which this one did
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

// widen gives one turn of Light more when none was given for a while: whoever has them may be stuck, although nothing
// there is to wait. l.mu is held.
func (l *lane) widen(now time.Time) {
	if l.state.Load()&takenMask < l.alone {
		l.slots.Store(l.alone)
	}
	if now.Sub(l.gave) > stuckLight {
		l.slots.Add(1)
	}
}

// giveUp tells busy those of f's own that have waited for long for their first turn, while there was no thread for any
// of them. l.mu is held.
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

// unstick lets those go on for whom there was no thread.
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

// lookForThreads lets the flows go on for which there is a thread again. l.stuck stays set until all were looked at, so
// that whoever gives a thread back meanwhile looks once more. A flow for which there is none stays stuck, although no
// place may be free to try it: else giveUp would not see it. l.mu is held.
func (l *lane) lookForThreads() {
	some := false
	l.root.each(func(f *flow) {
		f.setStuck(f.stuck && !f.meter.hasThread())
		some = some || f.stuck
	})
	l.stuck.Store(some)
}

// hasThread reports whether m could have a thread now.
func (m *Meter) hasThread() bool {
	full, _, _ := m.look(Threads, 0, 1)
	return full == nil
}

// takeThread is Take for a thread, without a word to those who wait for one.
func (m *Meter) takeThread() bool {
	m.Force(Threads, 1)
	if full, _, _ := m.look(Threads, 0, 0); full != nil {
		m.Force(Threads, -1)
		return false
	}
	return true
}
