package vat

import (
	"errors"
	"os"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"time"

	"capd/meter"
)

// A reader is a connection's reading end. One goroutine at a time has it: the connection's own, or a caller that waits
// for an answer and reads until it comes. That spares the caller from being woken by another goroutine, which is a
// quarter of the time of a small call.
//
// Callers read for a connection that is only asked: the peer holds nothing that it could call, so that nothing that
// cannot wait comes between calls. They do so while one call closely follows another. What several wait for, and what
// takes longer than a turn, is read by the connection's goroutine, which then wakes whoever waits.
type reader struct {
	c    *Conn
	in   *input
	role atomic.Int32

	// Of whoever has the reader.
	begin    func() // method value
	greeted  bool   // a message came in
	taken    int    // messages
	light    meter.Turn
	inTurn   bool
	heard    atomic.Uint32
	answered bool      // the last answer that came was to the last open question
	woken    uint32    // Conn.awaited, when nothing was open last
	rested   time.Time // and when that was
	declined int       // so often no caller is to read, after one got only a part of a message

	back chan struct{} // to the connection's goroutine: it has the reader again

	mu      sync.Mutex
	turn    uint64
	partial bool // a message has begun to come; set by whoever has the reader
	aside   bool // there is a deadline in the past: whoever waits for a message is to give the reader up
}

// What has been heard of the peer.
const (
	hearing uint32 = iota + 1 // something, just now
	heard                     // something
)

// Who has the reader. Only its owner gives it up, holding Conn.mu when nobody is to read, so that whoever asks something
// afterwards sees that; it is taken from nobody by comparing and swapping.
const (
	ownRead int32 = iota // the connection's goroutine
	unread               // nobody
	ledRead              // a caller
)

const (
	// leadTurn is how long a caller waits as the reader: between this and twice as long. So late it notices that its
	// context has ended.
	leadTurn = 500 * time.Microsecond
	// leadPause is how soon calls have to follow one another for their caller to read.
	leadPause = 500 * time.Microsecond
	// leadAgain is how many calls later it is tried again, after an answer has not come as a whole.
	leadAgain = 64
)

// errAside is why there is no message: another is to have the reader.
var errAside = errors.New("vat: another is to read")

// past is a deadline that ends a wait.
var past = time.Unix(1, 0)

func (r *reader) init(c *Conn, in *input) {
	r.c, r.in, r.begin, r.back = c, in, r.begun, make(chan struct{}, 1)
}

// read is the connection's own goroutine.
func (c *Conn) read() {
	r := &c.reader
	defer r.caught()
	defer r.leave()
	if c.options.Bootstrap != nil && c.limits.HandshakeTimeout > 0 {
		_ = c.nc.SetReadDeadline(time.Now().Add(c.limits.HandshakeTimeout))
	}
	if c.outbox.seal != nil {
		if err := c.handshake(); err != nil {
			c.fail(err)
			return
		}
	}
	for {
		if err := r.step(true); err != nil {
			r.leave()
			c.fail(err)
			return
		}
		if r.answered && r.giveUp() && !r.rest() {
			return
		}
	}
}

// caught ends the connection for a panic of this package's own.
func (r *reader) caught() {
	if p := recover(); p != nil {
		r.c.logf("vat: panic: %v\n%s", p, debug.Stack())
		r.c.fail(protocolf("internal error"))
	}
}

// step takes one message as it comes; what may run at once runs here. A caller waits for nothing but the message, and
// gets errAside when another is to read.
func (r *reader) step(own bool) error {
	c, in := r.c, r.in
	if in.buffered() == 0 || r.taken%answersTogether == 0 {
		c.outbox.flushUrgent()
	} else {
		c.outbox.flushMuch()
	}
	r.taken++
	if !own {
		if err := r.whole(); err != nil {
			return err
		}
	}
	c.messages.Add(1)
	if own && !c.outbox.hasRoom() {
		r.leave()
		if c.outbox.waitReplies(c.ctx) != nil {
			return c.Err()
		}
	}
	if r.inTurn && (!in.whole() || r.light.Contended()) {
		r.leave()
	}
	if in.buffered() >= len(shortFrame{}) {
		if which, word, ok := readShort(in.peek(len(shortFrame{}))); ok {
			in.discard(len(shortFrame{}))
			r.enter()
			return c.handleShort(which, word)
		}
	}
	m, err := c.readFrame(in, r.begin)
	if err != nil {
		return r.explain(err)
	}
	if r.partial || !r.greeted {
		r.greeted = true
		r.mu.Lock()
		r.partial = false
		r.undeadline()
		r.mu.Unlock()
	}
	r.enter()
	return fault(c.handle(m))
}

// enter waits for a turn to do what a message says. Calls that wait for nothing are served in it.
func (r *reader) enter() {
	if !r.inTurn && r.c.metered.Load() {
		r.heard.Store(hearing)
		r.c.meter.Load().Enter(&r.light)
		r.inTurn = true
	}
}

// leave gives the turn back, before the peer is waited for.
func (r *reader) leave() {
	if r.inTurn {
		r.inTurn = false
		r.light.Leave()
		r.heard.Store(heard)
	}
}

// whole waits for a caller until a message has come as a whole: what there is only a part of may take as long as the peer
// likes, and the caller may not have as long.
func (r *reader) whole() error {
	if !r.c.outbox.hasRoom() || r.isAside() {
		return errAside
	}
	if err := r.in.fill(1); err != nil {
		return r.explain(err)
	}
	if r.in.whole() {
		return nil
	}
	r.declined = leadAgain
	return errAside
}

// isAside reports whether whoever reads is to give the reader up.
func (r *reader) isAside() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.aside
}

// begun is called when a message has begun to come, and the rest may not be there.
func (r *reader) begun() {
	r.c.outbox.flushUrgent()
	if !r.greeted || r.partial {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.partial = true
	if d := r.c.limits.FrameTimeout; d > 0 {
		r.aside = false
		_ = r.c.nc.SetReadDeadline(time.Now().Add(d))
	} else if r.aside {
		r.undeadline()
	}
}

// isPartial reports whether a message has begun to come.
func (r *reader) isPartial() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.partial
}

// undeadline lifts whatever deadline there is. r.mu is held.
func (r *reader) undeadline() {
	r.aside = false
	_ = r.c.nc.SetReadDeadline(time.Time{})
}

// explain says what a failure to read means.
func (r *reader) explain(err error) error {
	if !errors.Is(err, os.ErrDeadlineExceeded) {
		return err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.aside {
		return errAside
	}
	return protocolf("the peer took too long over a message")
}

// giveUp gives the reader of the connection's own goroutine up, when a caller is likely to want it: calls come one at a
// time, and soon after one another.
func (r *reader) giveUp() bool {
	c := r.c
	r.answered = false
	woken := c.awaited.Load()
	alone := woken-r.woken == 1
	r.woken = woken
	if !alone || r.in.buffered() > 0 {
		return false
	}
	if r.declined > 0 {
		r.declined--
		return false
	}
	now := time.Now()
	soon := now.Sub(r.rested) < leadPause
	r.rested = now
	if !soon {
		return false
	}
	return c.unreadIfIdle()
}

// unreadIfIdle leaves the connection to nobody, if nothing is open either way and the peer has nothing to call.
func (c *Conn) unreadIfIdle() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	idle := c.questions.len() == 0 && c.exports.len() == 0 && c.calls == 0 && c.options.Bootstrap == nil
	if idle {
		c.reader.role.Store(unread)
	}
	return idle
}

// rest waits until the connection's own goroutine has the reader again: because it was handed back, or because nobody
// took it, or one caller did for longer than its turn. It reports false when the connection has ended.
func (r *reader) rest() bool {
	r.c.outbox.flushUrgent()
	timer := time.NewTimer(leadTurn)
	defer timer.Stop()
	seen := r.turns()
	for {
		select {
		case <-r.back:
			r.mu.Lock()
			r.undeadline()
			r.mu.Unlock()
			return true
		case <-r.c.ctx.Done():
			r.interrupt()
			return false
		case <-timer.C:
		}
		turn := r.turns()
		if turn == seen {
			r.attend()
			r.interrupt()
		}
		seen = turn
		timer.Reset(leadTurn)
	}
}

// Turns returns how many callers have read their own answers since the connection began.
func (c *Conn) Turns() uint64 { return c.reader.turns() }

func (r *reader) turns() uint64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.turn
}

// interrupt has a caller that waits for a message give the reader up.
func (r *reader) interrupt() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.role.Load() == ledRead {
		r.aside = true
		_ = r.c.nc.SetReadDeadline(past)
	}
}

// attend has the connection's own goroutine read if nobody does, for what no caller waits for.
func (r *reader) attend() {
	if r.role.Load() == unread && r.role.CompareAndSwap(unread, ownRead) {
		r.back <- struct{}{}
	}
}

// lead has the caller, who waits for a, read until that is done, unless somebody reads already. It may return earlier.
func (r *reader) lead(a *answer) {
	if !r.role.CompareAndSwap(unread, ledRead) {
		return
	}
	defer r.caught()
	r.mu.Lock()
	r.turn++
	if r.aside {
		r.undeadline()
	}
	r.mu.Unlock()
	if r.c.ctx.Err() != nil { // nobody interrupts any more
		r.handBack()
		return
	}
	for {
		if done, _ := a.failure(); done {
			r.c.outbox.flushUrgent()
			if r.in.buffered() > 0 || !r.c.unreadIfIdle() {
				r.handBack()
			}
			return
		}
		switch err := r.step(false); err {
		case nil:
		case errAside:
			r.handBack()
			return
		default:
			go r.c.fail(err) // which may take a while
			return
		}
	}
}

// handBack gives a caller's reader to the connection's goroutine.
func (r *reader) handBack() {
	r.role.Store(ownRead)
	r.back <- struct{}{}
}
