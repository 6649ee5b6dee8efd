package vat

import (
	"context"
	"sync"
	"sync/atomic"
	"time"
)

// A Budget bounds the memory that peers take on all the connections that share it. It is safe for concurrent use.
//
// Large messages that came in count from when memory is taken for one until its call is done, capabilities in them once
// they are known. A connection whose next message does not fit waits with its reading, and ends when it has waited for
// Limits.FrameTimeout.
//
// Beside that, calls may hold half as much again: messages of calls in progress, what is kept until Finish, and 1 KiB for
// each call that is open; the first 64 KiB of a connection are its own. A call beyond that is refused. At twice the
// budget the connection ends that has another.
type Budget struct {
	held  atomic.Int64 // by calls
	mu    sync.Mutex
	total int64
	used  int64
	less  chan struct{} // closed when some comes back; made when somebody waits
}

// NewBudget returns a budget of so many bytes, for [Conn.SetBudget]. It should be several times Limits.MessageBytes; one of
// no bytes panics.
func NewBudget(bytes int64) *Budget {
	if bytes <= 0 {
		panic("vat: a budget of no bytes")
	}
	return &Budget{total: bytes}
}

// Used returns how many bytes are taken.
func (b *Budget) Used() int64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.used
}

// Held returns how many bytes calls hold, in steps of 64 KiB for each connection.
func (b *Budget) Held() int64 { return b.held.Load() }

// What an open call takes at least, what a connection may hold without a budget's knowing, and the steps in which it
// takes more.
const (
	openBytes = 1 << 10
	heldFree  = 64 << 10
	heldStep  = 64 << 10
)

// hold keeps what the connection has of its budget near to what calls hold. Called with c.mu held.
func (c *Conn) hold() {
	if c.budget == nil || c.closed {
		return
	}
	over := max(0, int64(c.answers.len())*openBytes+c.callBytes+c.resultBytes-heldFree)
	want := (over + heldStep - 1) / heldStep * heldStep
	if want > c.held || want < c.held-heldStep || want == 0 && c.held > 0 {
		c.budget.held.Add(want - c.held)
		c.held = want
	}
}

// letGo gives back what calls have of the budget. Called with c.mu held.
func (c *Conn) letGo() {
	if c.held > 0 {
		c.budget.held.Add(-c.held)
		c.held = 0
	}
}

// crowded reports whether calls hold so much that this connection, which has a part in it, is to have no more, or is to
// end. Called with c.mu held.
func (c *Conn) crowded() (refuse, end bool) {
	if c.held == 0 {
		return false, false
	}
	held, total := c.budget.held.Load(), c.budget.total
	return held > total+total/2, held > 2*total
}

var errCrowded = protocolf("limit: open calls hold twice the budget")

// take takes n bytes if they are free, or if nothing is taken. Otherwise it returns what is closed when it may be worth
// another try.
func (b *Budget) take(n int64) (less <-chan struct{}) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.used == 0 || b.used+n <= b.total {
		b.used += n
		return nil
	}
	if b.less == nil {
		b.less = make(chan struct{})
	}
	return b.less
}

func (b *Budget) give(n int64) {
	b.mu.Lock()
	b.used -= n
	if b.less != nil {
		close(b.less)
		b.less = nil
	}
	b.mu.Unlock()
}

// SetBudget makes the connection's large messages count in b: those that come from now on, and the one that waits for
// room in another. Nil is no budget.
func (c *Conn) SetBudget(b *Budget) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.letGo()
	c.budget = b
	c.hold()
	if c.rebudget != nil {
		close(c.rebudget)
		c.rebudget = nil
	}
}

// SetCalls changes Limits.Calls and Limits.CallBytes for the calls that come from now on.
func (c *Conn) SetCalls(calls int, bytes int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.limits.Calls, c.limits.CallBytes = calls, bytes
}

// eager reports whether memory for a large message may be taken before its bytes arrive: where a budget bounds it, and
// on a connection that this side has made to have somebody to call.
func (c *Conn) eager() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.budget != nil || c.options.Bootstrap == nil
}

// budgetBytes is from which size on a message counts in a budget.
const budgetBytes = 64 << 10

// A purse is what one message has taken of a budget.
type purse struct {
	budget *Budget
	taken  int64
}

// grow takes what a message that is to have n bytes needs beside what it has.
func (p *purse) grow(c *Conn, n int) error {
	if n <= budgetBytes || int64(n) <= p.taken {
		return nil
	}
	var late <-chan time.Time
	for {
		c.mu.Lock()
		b := c.budget
		if p.taken > 0 {
			b = p.budget
		}
		if b == nil {
			c.mu.Unlock()
			return nil
		}
		less := b.take(int64(n) - p.taken)
		if less == nil {
			c.mu.Unlock()
			p.budget, p.taken = b, int64(n)
			return nil
		}
		if c.rebudget == nil {
			c.rebudget = make(chan struct{})
		}
		changed := c.rebudget
		c.mu.Unlock()
		if late == nil && c.limits.FrameTimeout > 0 {
			timer := time.NewTimer(c.limits.FrameTimeout)
			defer timer.Stop()
			late = timer.C
		}
		select {
		case <-less:
		case <-changed:
		case <-late:
			return protocolf("limit: no room for a message of %d bytes beside the others", n)
		case <-c.ctx.Done():
			return context.Cause(c.ctx)
		}
	}
}

// add notes that a message turned out to take n bytes of memory in all, of which the budget is b: they are there
// already, so that those who come later wait for them. Called with Conn.mu held.
func (p *purse) add(b *Budget, n int64) {
	if p.taken > 0 {
		b = p.budget
	}
	if b == nil || n <= budgetBytes || n <= p.taken {
		return
	}
	b.mu.Lock()
	b.used += n - p.taken
	b.mu.Unlock()
	p.budget, p.taken = b, n
}

func (p *purse) empty() {
	if p.taken > 0 {
		p.budget.give(p.taken)
	}
	*p = purse{}
}
