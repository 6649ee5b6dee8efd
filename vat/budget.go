package vat

import (
	"sync"
	"time"
)

// A Budget bounds the memory in large messages that came in, on all the connections that share it: from when memory
// is taken for one until its call is done. A connection whose next message does not fit waits with its reading, and
// ends when it has waited for Limits.FrameTimeout. It is safe for concurrent use.
type Budget struct {
	mu    sync.Mutex
	total int64
	used  int64
	less  chan struct{} // closed when some comes back; made when somebody waits
}

// NewBudget returns a budget of so many bytes. It should be several times Limits.MessageBytes.
func NewBudget(bytes int64) *Budget { return &Budget{total: bytes} }

// Used returns how many bytes are taken.
func (b *Budget) Used() int64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.used
}

// take waits until n bytes are free, or nothing is taken, and takes them. It reports false when done was closed or
// the timeout, unless negative, passed.
func (b *Budget) take(n int64, timeout time.Duration, done <-chan struct{}) bool {
	var late <-chan time.Time
	for {
		b.mu.Lock()
		if b.used == 0 || b.used+n <= b.total {
			b.used += n
			b.mu.Unlock()
			return true
		}
		if b.less == nil {
			b.less = make(chan struct{})
		}
		less := b.less
		b.mu.Unlock()
		if late == nil && timeout > 0 {
			timer := time.NewTimer(timeout)
			defer timer.Stop()
			late = timer.C
		}
		select {
		case <-less:
		case <-late:
			return false
		case <-done:
			return false
		}
	}
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

// SetBudget makes the connection's large messages count in b, those that come from now on. Nil is no budget.
func (c *Conn) SetBudget(b *Budget) { c.budget.Store(b) }

// SetMessageBytes changes Limits.MessageBytes for the messages that come from now on.
func (c *Conn) SetMessageBytes(n int) { c.messageBytes.Store(int64(n)) }

// budgetBytes is from which size on a message counts in a budget.
const budgetBytes = 64 << 10

// A purse is what one message has taken of a budget.
type purse struct {
	budget *Budget
	taken  int64
}

// grow takes what a message that is to have n bytes needs beside what it has.
func (p *purse) grow(c *Conn, n int) error {
	if n <= budgetBytes {
		return nil
	}
	if p.taken == 0 {
		p.budget = c.budget.Load()
	}
	more := int64(n) - p.taken
	if p.budget == nil || more <= 0 {
		return nil
	}
	if !p.budget.take(more, c.limits.FrameTimeout, c.ctx.Done()) {
		return protocolf("limit: no room for a message of %d bytes beside the others", n)
	}
	p.taken += more
	return nil
}

func (p *purse) empty() {
	if p.taken > 0 {
		p.budget.give(p.taken)
	}
	*p = purse{}
}
