package vat

import "time"

// SetIdleTimeout changes Limits.IdleTimeout from now on. 0 means forever.
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

// checkIdle ends the connection if nothing is in progress either way and the peer has sent nothing since the
// connection had received seen messages. Otherwise it runs again after d. So an idle connection ends after
// one to two times d.
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
		c.shutdown(protocolf("idle for %v", d))
	}
}
