package vat

import (
	"context"
	"sync"
)

// A loan is memory of the caller that the tail of a message lies in. The caller waits for the loan to come
// back. It comes back when its bytes have left, when they were copied because the caller's context ended, or
// when the connection has ended. Only the outbox of a plain socket takes loans. Everything else copies the
// memory.
type loan struct {
	ctx context.Context // the caller's

	mu   sync.Mutex
	out  bool   // the outbox has it
	back signal // the outbox has it no more
}

// lendBytes is the size from which data is lent. Below it a copy is cheaper than to wait until the data has
// left.
const lendBytes = 32 << 10

// Lend sets a Data field of the parameters being built to the bytes of b, as SetData does. It avoids the copy
// if b can be sent from where it lies. b must not change until [Send] or [Do] has returned. So they may wait
// for the peer to read, until their context ends. Only one such field can be set.
func (c *Caps) Lend(of Field, b []byte) error {
	if len(b) < lendBytes || len(b)%8 != 0 || c == nil || c.built == nil {
		return c.SetData(of, b)
	}
	return c.built.lend(of, b)
}

// lend sets the field of m's content to the bytes of b, which become m's tail.
func (m *message) lend(of Field, b []byte) error {
	err := m.addTail(of, len(b))
	if err == nil {
		m.tail.b, m.tail.n, m.tail.loan = b[:len(b):len(b)], len(b), new(loan)
	}
	return err
}

// own replaces what was lent to t by a copy.
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
	l.back.broadcast()
	l.mu.Unlock()
}

// isOut reports whether l is a loan that the outbox has.
func (l *loan) isOut() bool {
	if l == nil {
		return false
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.out
}

// flushLoan flushes and waits until l is back. If nobody else writes, it writes itself.
func (o *outbox) flushLoan(l *loan) {
	o.flushUntil(l)
	l.mu.Lock()
	if !l.out {
		l.mu.Unlock()
		return
	}
	back := l.back.next()
	l.mu.Unlock()
	defer o.recallAfter(l)()
	<-back
}

// recallAfter recalls l when its caller's context ends, unless stop was called before.
func (o *outbox) recallAfter(l *loan) (stop func() bool) {
	if l.ctx.Done() == nil {
		return func() bool { return true }
	}
	return context.AfterFunc(l.ctx, o.recall)
}

// recall asks for every loan back. The writer makes the copies as soon as its present write is interrupted.
func (o *outbox) recall() {
	o.mu.Lock()
	defer o.mu.Unlock()
	switch {
	case o.closed.Load(): // close gives them back
	case o.writing:
		o.recalled = true
		_ = o.nc.SetWriteDeadline(past)
	default:
		own(o.chunks)
	}
}

// repay makes the copies if there was a recall, also of the chunks that the writer has not written. Called
// with o.mu held.
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

// own makes copies of the loans among chunks, and gives the loans back.
func own(chunks []chunk) {
	for i := range chunks {
		c := &chunks[i]
		if c.loan != nil {
			c.buf = getBuffer(len(c.b))
			n := copy(c.buf.b, c.b)
			c.b = c.buf.b[:n:n] // full, so that nothing is appended to it
			c.loan.giveBack()
			c.loan = nil
		}
	}
}
