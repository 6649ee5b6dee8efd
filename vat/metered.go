package vat

import (
	"context"
	"time"

	"capd/meter"
)

// What calls hold, except large messages, counts in the connection's meter. openBytes is the least that an open call takes,
// heldFree what a connection may hold without counting it, and heldStep the steps in which the rest counts.
const (
	openBytes = 2 << 10
	heldFree  = 64 << 10
	heldStep  = 64 << 10
)

// steps is what counts in a meter of so many bytes, where counted counts already.
func steps(bytes, counted int64) int64 {
	want := (max(0, bytes-heldFree) + heldStep - 1) / heldStep * heldStep
	if want > counted || want < counted-heldStep || want == 0 {
		return want
	}
	return counted
}

// adjust makes counted be want, in m.
func adjust(m *meter.Meter, k meter.Kind, counted *int64, want int64) {
	switch {
	case want > *counted:
		m.Force(k, want-*counted)
	case want < *counted:
		m.Give(k, *counted-want)
	}
	*counted = want
}

// hold keeps what the connection's meter counts near to what calls hold. Called with c.mu held.
func (c *Conn) hold() {
	if c.closed {
		return
	}
	want := steps(int64(c.answers.len())*openBytes+c.callBytes-c.pursed+c.resultBytes, c.held)
	if want != c.held {
		adjust(c.meter.Load(), meter.CallBytes, &c.held, want)
	}
}

// letGo takes what calls hold from the meter. Called with c.mu held.
func (c *Conn) letGo() { adjust(c.meter.Load(), meter.CallBytes, &c.held, 0) }

// crowded returns the limit that the calls of the meter's connections pass, nil for none, if this connection counts for any of
// it. New calls are refused then. end is true when they pass it by a third: then the connection ends. Called with c.mu held.
func (c *Conn) crowded() (full *meter.Full, end bool) {
	if c.held == 0 {
		return nil, false
	}
	return c.meter.Load().Passed(meter.CallBytes)
}

var errCrowded = protocolf("limit: open calls hold a third more than may be (limit callBytes)")

// SetMeter makes what the peer uses count in m from now on: see Options.Meter.
func (c *Conn) SetMeter(m *meter.Meter) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.letGo()
	c.outbox.setMeter(m)
	c.meter.Store(m)
	c.metered.Store(true)
	c.hold()
	if c.remeter != nil {
		close(c.remeter)
		c.remeter = nil
	}
}

// eager reports whether memory for a large message may be taken before its bytes arrive: where a meter bounds it, and
// on a connection that this side has made to have somebody to call.
func (c *Conn) eager() bool { return c.metered.Load() || c.options.Bootstrap == nil }

// meteredBytes is from which size on a message counts in a meter.
const meteredBytes = 64 << 10

// A purse is what one message has taken of a meter.
type purse struct {
	meter *meter.Meter
	taken int64
}

// grow takes what a message that is to have n bytes needs beside what it has. It waits until there is room.
func (p *purse) grow(c *Conn, n int) error {
	if n <= meteredBytes || int64(n) <= p.taken {
		return nil
	}
	if p.take(c, n) {
		return nil
	}
	var late <-chan time.Time
	if c.limits.FrameTimeout > 0 {
		timer := time.NewTimer(c.limits.FrameTimeout)
		defer timer.Stop()
		late = timer.C
	}
	for {
		m, changed := c.payer()
		if p.taken > 0 {
			m = p.meter
		}
		if met, err := p.claim(c, m, n, changed, late); met || err != nil {
			return err
		}
	}
}

// claim waits for room in m until there is, or changed is closed: then it reports false.
func (p *purse) claim(c *Conn, m *meter.Meter, n int, changed <-chan struct{}, late <-chan time.Time) (met bool, err error) {
	claim := m.Claim(meter.MessageBytes)
	defer claim.End()
	for !claim.Take(int64(n) - p.taken) {
		select {
		case <-claim.Again():
		case <-changed:
			return false, nil
		case <-late:
			return false, protocolf("limit: no room for a message of %d bytes beside the others (limit messageBytes)", n)
		case <-c.ctx.Done():
			return false, context.Cause(c.ctx)
		}
	}
	p.meter, p.taken = m, int64(n)
	return true, nil
}

// payer returns the connection's meter, and what is closed when there is another.
func (c *Conn) payer() (m *meter.Meter, changed <-chan struct{}) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.remeter == nil {
		c.remeter = make(chan struct{})
	}
	return c.meter.Load(), c.remeter
}

// take takes what grow is to take if there is room, or if nothing is taken; see [meter.Meter.TakeFirst].
func (p *purse) take(c *Conn, n int) bool {
	m := c.meter.Load()
	if p.taken > 0 {
		m = p.meter
	}
	if !m.TakeFirst(meter.MessageBytes, int64(n)-p.taken) {
		return false
	}
	p.meter, p.taken = m, int64(n)
	return true
}

// add counts a message that turned out to take n bytes of memory in all, in m. It never waits, since the memory is taken
// already; later messages wait for it.
func (p *purse) add(m *meter.Meter, n int64) {
	if p.taken > 0 {
		m = p.meter
	}
	if n <= meteredBytes || n <= p.taken {
		return
	}
	m.Force(meter.MessageBytes, n-p.taken)
	p.meter, p.taken = m, n
}

func (p *purse) empty() {
	if p.taken > 0 {
		p.meter.Give(meter.MessageBytes, p.taken)
	}
	*p = purse{}
}
