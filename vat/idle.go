package vat

import "time"

// SetIdleTimeout changes Limits.IdleTimeout from now on; 0 is forever.
func (c *Conn) SetIdleTimeout(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.idleTimer != nil {
		c.idleTimer.Stop()
		c.idleTimer = nil
	}
	if d > 0 && !c.closed {
		c.idleTimer = time.AfterFunc(d, func() { c.checkIdle(d, 0) })
	}
}

// checkIdle ends the connection when the peer has sent nothing since it had sent so many messages, and nothing is in
// progress either way, be it that a message comes or leaves. It comes again every d, so that the end comes after one to
// two times that.
func (c *Conn) checkIdle(d time.Duration, seen uint64) {
	now, partial := c.messages.Load(), c.reader.isPartial()
	c.mu.Lock()
	if c.closed || c.idleTimer == nil {
		c.mu.Unlock()
		return
	}
	idle := now == seen && !partial && c.outbox.parked() == 0 && c.calls == 0 && c.questions.len() == 0
	if !idle {
		c.idleTimer = time.AfterFunc(d, func() { c.checkIdle(d, now) })
	}
	c.mu.Unlock()
	if idle {
		c.fail(protocolf("idle for %v", d))
	}
}
