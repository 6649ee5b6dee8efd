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

// A reader reads a connection. One goroutine at a time has it: the connection's own, or a caller that waits
// for an answer and reads until it comes. Then no other goroutine has to wake the caller, which would take a
// quarter of the time of a small call.
//
// A caller reads only if the peer has no capability to call, so that no urgent call can come in, and only
// while single calls follow each other closely. The connection's goroutine reads, and wakes the callers, when
// several of them wait, or when an answer takes longer than a turn.
type reader struct {
	c    *Conn
	in   *input
	role atomic.Int32

	// Of the goroutine that has the reader.
	begin    func() // method value
	greeted  bool   // a message came in
	taken    int    // number of messages taken
	light    meter.Turn
	inTurn   bool
	heard    atomic.Uint32
	answered bool      // no question was open after the last answer
	woken    uint32    // Conn.awaited when the last question was answered
	rested   time.Time // when that was
	declined int       // for how many more calls no caller may read, after an answer came in parts

	back chan struct{} // tells the connection's goroutine that it has the reader again

	mu      sync.Mutex
	turn    uint64
	partial bool // a message has begun to come; set by whoever has the reader
	aside   bool // the deadline is in the past: the caller that reads is to give the reader up
}

// What has come from the peer.
const (
	hearing uint32 = iota + 1 // a message that waits for its turn or is handled
	heard                     // any message
)

// Who has the reader. Only its owner gives it up. It takes Conn.mu to leave it to nobody, so that whoever
// sends a call afterwards sees that. A reader that nobody has is taken by compare and swap.
const (
	ownRead int32 = iota // the connection's goroutine
	unread               // nobody
	ledRead              // a caller
)

const (
	// leadTurn is how long a caller may read: at least this, and at most twice as long. A caller notices the
	// end of its context as late as that.
	leadTurn = 500 * time.Microsecond
	// leadPause is the longest pause between calls after which their caller still reads.
	leadPause = 500 * time.Microsecond
	// leadAgain is the number of calls without a caller that reads, after an answer came in parts.
	leadAgain = 64
)

// errAside means that another goroutine is to have the reader.
var errAside = errors.New("vat: another is to read")

// past is a deadline that ends a wait at once.
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
			c.shutdown(err)
			return
		}
	}
	for {
		if err := r.step(true); err != nil {
			r.leave()
			c.shutdown(err)
			return
		}
		if r.answered && r.giveUp() && !r.rest() {
			return
		}
	}
}

// caught ends the connection after a panic in this package.
func (r *reader) caught() {
	if p := recover(); p != nil {
		r.c.options.Logf("vat: panic: %v\n%s", p, debug.Stack())
		r.c.shutdown(protocolf("internal error"))
	}
}

// step reads and handles one message. Handlers that may run at once run here. If own is false, a caller
// reads: it gets errAside if another goroutine is to have the reader.
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

// enter waits for a turn to handle a message. Handlers that do not wait run in that turn.
func (r *reader) enter() {
	if !r.inTurn && r.c.metered.Load() {
		r.heard.Store(hearing)
		r.c.meter.Load().Enter(&r.light)
		r.inTurn = true
	}
}

// leave gives the turn back, before a wait for the peer.
func (r *reader) leave() {
	if r.inTurn {
		r.inTurn = false
		r.light.Leave()
		r.heard.Store(heard)
	}
}

// whole waits, for a caller, until a whole message is there. It does not wait for the rest of a message,
// which the peer may delay for longer than the caller wants to wait.
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

// isAside reports whether the goroutine that reads is to give the reader up.
func (r *reader) isAside() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.aside
}

// begun is called when a message has begun to come and the rest may not be there.
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

// undeadline removes the deadline, whichever it is. Called with r.mu held.
func (r *reader) undeadline() {
	r.aside = false
	_ = r.c.nc.SetReadDeadline(time.Time{})
}

// explain returns the error to report for a failed read.
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

// giveUp gives up the reader of the connection's goroutine if a caller is likely to want it: calls come one
// at a time and closely follow each other. It reports whether it did.
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

// unreadIfIdle leaves the reader to nobody if nothing is open either way and the peer has no capability to
// call. It reports whether it did.
func (c *Conn) unreadIfIdle() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	idle := c.questions.len() == 0 && c.exports.len() == 0 && c.calls == 0 && c.options.Bootstrap == nil
	if idle {
		c.reader.role.Store(unread)
	}
	return idle
}

// rest waits until the connection's goroutine has the reader again. A caller hands it back, or rest takes it
// when nobody has read, or the same caller still reads, after a turn. It reports false if the connection has
// ended.
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

// Turns returns how often callers have read their own answers.
func (c *Conn) Turns() uint64 { return c.reader.turns() }

func (r *reader) turns() uint64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.turn
}

// interrupt makes a caller that waits for a message give the reader up.
func (r *reader) interrupt() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.role.Load() == ledRead {
		r.aside = true
		_ = r.c.nc.SetReadDeadline(past)
	}
}

// attend makes the connection's goroutine read if nobody reads, for messages that no caller waits for.
func (r *reader) attend() {
	if r.role.Load() == unread && r.role.CompareAndSwap(unread, ownRead) {
		r.back <- struct{}{}
	}
}

// lead makes the caller read until a, for which it waits, is done. It does nothing if somebody else reads. It
// may return earlier.
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
	if r.c.ctx.Err() != nil { // nobody would interrupt
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
			go r.c.shutdown(err) // it may take a while
			return
		}
	}
}

// handBack gives the reader from a caller to the connection's goroutine.
func (r *reader) handBack() {
	r.role.Store(ownRead)
	r.back <- struct{}{}
}
