package vat

import (
	"context"
	"errors"
	"net"
	"slices"
	"time"
)

// Refuse tells the peer of nc why there is no connection, as [Conn.Abort] does, and closes nc. It reads
// nothing. It waits at most 100 ms, and not at all if nothing has been written to nc yet.
func Refuse(nc net.Conn, reason string) {
	defer nc.Close()
	m := abortMessage(reason)
	if m == nil {
		return
	}
	defer m.unref()
	head, body, _, _ := m.frame()
	_ = nc.SetWriteDeadline(time.Now().Add(closeGrace))
	_, _ = nc.Write(slices.Concat(head[:], body))
}

// shutdown ends the connection, once.
func (c *Conn) shutdown(err error) {
	c.mu.Lock()
	if c.closed {
		c.mu.Unlock()
		return
	}
	c.closed, c.err = true, err
	c.letGo()
	questions, answers, exports, embargoes := c.questions, c.answers, c.exports, c.embargoes
	c.questions, c.answers, c.exports = numbered[question]{}, numbered[answer]{}, numbered[export]{}
	c.exportIDs, c.imports, c.embargoes = nil, nil, nil
	bootstrap := c.options.Bootstrap
	if c.idleTimer != nil {
		c.idleTimer.Stop()
		c.idleTimer = nil
	}
	grace := closeGrace
	var dropped []chunk
	if broke, ok := errors.AsType[*ProtocolError](err); ok {
		if err == errParked { // otherwise the Abort would come after all of it
			c.outbox.mu.Lock()
			dropped = c.outbox.drop()
			c.outbox.mu.Unlock()
		}
		c.send(abortMessage(broke.Reason))
	} else if !errors.Is(err, ErrClosed) {
		grace = 0
	}
	c.mu.Unlock()

	defer close(c.done)
	freeAll(dropped)
	c.cancel(ended{err})
	if grace == 0 {
		c.outbox.close(0)
		_ = c.nc.Close()
	}
	gone := c.gone()
	for q := range questions.all() {
		if !q.finished {
			q.ans.complete(nil, gone)
		}
	}
	for _, e := range embargoes {
		e.promise.redirect(broken{gone}, true)
		e.promise.release()
		e.target.release()
	}
	for a := range answers.all() {
		if !a.table.finished {
			a.drop()
		}
	}
	for e := range exports.all() {
		e.target.release()
	}
	bootstrap.Release()
	if grace > 0 {
		c.outbox.close(grace)
		_ = c.nc.Close()
	}
}

// ended is why the contexts of a connection's calls end with it. It is [context.Canceled], too: the call did not fail.
type ended struct{ error }

func (e ended) Is(target error) bool { return target == context.Canceled }
func (e ended) Unwrap() error        { return e.error }
