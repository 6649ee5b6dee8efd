package vat

import (
	"context"
	"sync"
)

// A loan is memory of a caller's that the tail of a message lies in. The caller waits until the loan is back: what it
// holds has left, or was copied because the caller would not wait for the peer any longer, or the connection has ended.
// Only a plain socket's outbox takes loans; anybody else has a copy made.
type loan struct {
	ctx context.Context // the caller's

	mu   sync.Mutex
	out  bool          // the outbox has it
	back chan struct{} // closed when it has it no more; made when somebody waits
}

// lendBytes is from which size on data is lent: below, a copy is cheaper than to wait for its leaving.
const lendBytes = 32 << 10

// Lend makes the field of of the parameters being built, a Data, hold what b holds, as SetData does, and spares the copy
// where b can leave for the peer from where it lies. b must not change until [Send] or [Do] has returned, which may
// therefore wait for the peer to read, as long as their context lasts. There is one such field.
func (c *Caps) Lend(of Field, b []byte) error {
	if len(b) < lendBytes || len(b)%8 != 0 || c == nil || c.built == nil {
		return c.SetData(of, b)
	}
	return c.built.lend(of, b)
}

// lend makes the field of of m's content what b holds, and b m's tail.
func (m *message) lend(of Field, b []byte) error {
	err := m.addTail(of, len(b))
	if err == nil {
		m.tail.b, m.tail.n, m.tail.loan = b[:len(b):len(b)], len(b), new(loan)
	}
	return err
}

// own gives t a copy of what was lent to it.
func (t *tail) own() {
	if t.loan != nil {
		lent := t.b
		t.loan = nil
		copy(t.room(len(lent)), lent)
	}
}

// lends reports whether o takes loans.
func (o *outbox) lends() bool { return o.sock != nil && o.seal == nil }

func (l *loan) take() {
	l.mu.Lock()
	l.out = true
	l.mu.Unlock()
}

func (l *loan) giveBack() {
	l.mu.Lock()
	l.out = false
	if l.back != nil {
		close(l.back)
		l.back = nil
	}
	l.mu.Unlock()
}

// isOut reports whether there is a loan, and the outbox has it.
func (l *loan) isOut() bool {
	if l == nil {
		return false
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.out
}

// flushLoan is flush, and waits until l is back: if nobody else writes, by writing.
func (o *outbox) flushLoan(l *loan) {
	o.flushUntil(l)
	l.mu.Lock()
	if !l.out {
		l.mu.Unlock()
		return
	}
	back := make(chan struct{})
	l.back = back
	l.mu.Unlock()
	defer o.recallAfter(l)()
	<-back
}

// recallAfter recalls l when its caller's context ends, until the function that it returns is called.
func (o *outbox) recallAfter(l *loan) (stop func() bool) {
	if l.ctx.Done() == nil {
		return func() bool { return true }
	}
	return context.AfterFunc(l.ctx, o.recall)
}

// recall gives every loan back soon: whoever writes makes the copies, as soon as the write under way is interrupted.
func (o *outbox) recall() {
	o.mu.Lock()
	defer o.mu.Unlock()
	switch {
	case o.closed.Load(): // which gives them back
	case o.writing:
		o.recalled = true
		_ = o.nc.SetWriteDeadline(past)
	default:
		own(o.chunks)
	}
}

// repay makes the copies if there was a recall, of what the writer has not written, too. o.mu is held.
func (o *outbox) repay(writers []chunk) bool {
	if !o.recalled {
		return false
	}
	own(writers)
	own(o.chunks)
	o.recalled = false
	o.lift()
	return true
}

// own makes copies of the loans among chunks, and gives them back.
func own(chunks []chunk) {
	for i := range chunks {
		c := &chunks[i]
		if c.loan != nil {
			c.buf = getBuffer(len(c.b))
			n := copy(c.buf.b, c.b)
			c.b = c.buf.b[:n:n] // nothing is appended to it
			c.loan.giveBack()
			c.loan = nil
		}
	}
}
