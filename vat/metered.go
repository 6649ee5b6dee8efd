package vat

import (
	"context"
	"time"

	"capd/meter"
)

// The connection's meter counts what calls hold, except large messages. openBytes is the least that an open
// call counts. A connection may hold heldFree bytes without counting them. Above that it counts in steps of
// heldStep.
const (
	openBytes = 2 << 10
	heldFree  = 64 << 10
	heldStep  = 64 << 10
)

// steps returns what to count in a meter for that many bytes. counted is what the meter counts now: the
// result is lower only if counted is more than a step too large, or nothing is left to count.
func steps(bytes, counted int64) int64 {
	want := (max(0, bytes-heldFree) + heldStep - 1) / heldStep * heldStep
	if want > counted || want < counted-heldStep || want == 0 {
		return want
	}
	return counted
}

// adjust changes what m counts of a kind from *counted to want.
func adjust(m *meter.Meter, k meter.Kind, counted *int64, want int64) {
	switch {
	case want > *counted:
		m.Force(k, want-*counted)
	case want < *counted:
		m.Give(k, *counted-want)
	}
	*counted = want
}

// hold updates what the connection's meter counts for calls. Called with c.mu held.
func (c *Conn) hold() {
	if c.closed {
		return
	}
	want := steps(int64(c.answers.len())*openBytes+c.callBytes-c.pursed+c.resultBytes, c.held)
	if want != c.held {
		adjust(c.meter.Load(), meter.CallBytes, &c.held, want)
	}
}

// letGo makes the meter count nothing for calls. Called with c.mu held.
func (c *Conn) letGo() { adjust(c.meter.Load(), meter.CallBytes, &c.held, 0) }

// crowded returns the limit that the calls of all the meter's connections exceed, or nil. Then new calls are
// refused. end is true if they exceed it by a third, and then the connection ends. It returns nil for a
// connection that counts for nothing. Called with c.mu held.
func (c *Conn) crowded() (full *meter.Full, end bool) {
	if c.held == 0 {
		return nil, false
	}
	return c.meter.Load().Passed(meter.CallBytes)
}

var errCrowded = protocolf("limit: open calls hold a third more than may be (limit callBytes)")

// SetMeter makes m count what the peer uses from now on: see Options.Meter.
func (c *Conn) SetMeter(m *meter.Meter) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.letGo()
	c.outbox.setMeter(m)
	c.meter.Store(m)
	c.metered.Store(true)
	c.hold()
	c.remeter.broadcast()
}

// eager reports whether memory for a large message may be allocated before its bytes arrive. It may if a
// meter bounds it, or if this side has no bootstrap capability.
func (c *Conn) eager() bool { return c.metered.Load() || c.options.Bootstrap == nil }

// meteredBytes is the size above which a message counts in a meter.
const meteredBytes = 64 << 10

// A purse is what one message has taken of a meter.
type purse struct {
	meter *meter.Meter
	taken int64
}

// grow takes what a message of n bytes needs beyond what it has taken. It waits until there is room.
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

// claim waits for room in m. It reports false if changed is closed first.
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

// payer returns the connection's meter, and a channel that is closed when another replaces it.
func (c *Conn) payer() (m *meter.Meter, changed <-chan struct{}) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.meter.Load(), c.remeter.next()
}

// take is grow without waiting: it takes nothing and reports false if there is no room. See
// [meter.Meter.TakeFirst].
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

// add counts a message that turned out to take n bytes of memory in all. It never waits, since the memory is
// already in use. Later messages wait for it.
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
