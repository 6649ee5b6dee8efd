package vat

import (
	"errors"
	"os"
	"time"
)

// write writes as much of chunks as the socket takes, and reports whether the socket is full. With wait, it
// waits until the socket takes something.
func (o *outbox) write(chunks []chunk, wait bool) (n int, full bool, err error) {
	if o.seal != nil {
		return o.seal.write(o, chunks, wait)
	}
	vec := o.vector(chunks)
	n, full, err = o.sock.write(vec, wait)
	clear(vec)
	return n, full, err
}

// vector returns the bytes of the first chunks for one write.
func (o *outbox) vector(chunks []chunk) [][]byte {
	o.vec = o.vec[:0]
	for i := range chunks[:min(len(chunks), maxVec)] {
		o.vec = append(o.vec, chunks[i].b)
	}
	return o.vec
}

// drain writes everything, and waits for the peer.
func (o *outbox) drain(rest []chunk) {
	for {
		for len(rest) > 0 {
			o.bound()
			var n int
			var err error
			if o.sock != nil {
				n, _, err = o.write(rest, true)
			} else {
				n, err = o.nc.Write(rest[0].b[:min(len(rest[0].b), writeBytes)])
			}
			rest = o.wrote(rest, n)
			if err != nil && !o.interrupted(rest, err) {
				o.lost(rest, err)
				return
			}
		}
		if o.sock == nil { // TLS also writes by itself: leave no deadline for that
			o.mu.Lock()
			o.lift()
			o.mu.Unlock()
		}
		if rest = o.take(); rest == nil {
			return
		}
	}
}

// interrupted reports whether a write failed only because of a recall, or because of an earlier write's
// deadline, so that it goes on. After a recall it copies the loans. rest is what the writer has not written.
func (o *outbox) interrupted(rest []chunk, err error) bool {
	if !errors.Is(err, os.ErrDeadlineExceeded) {
		return false
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	switch {
	case o.repay(rest):
		return true
	case o.closed.Load() || !o.stuck.IsZero() && time.Since(o.stuck) >= o.timeout/2:
		return false
	}
	o.lift()
	return true
}

// bound sets the deadline of the next write: o.timeout after the peer last took something.
func (o *outbox) bound() {
	if o.timeout <= 0 {
		return
	}
	if o.stuck.IsZero() {
		o.stuck = time.Now()
	}
	until := o.stuck.Add(o.timeout)
	o.mu.Lock()
	defer o.mu.Unlock()
	// Setting a deadline wakes whoever waits for the network. So keep the present one unless it is much too
	// early. close and recall have set an earlier one.
	if until.Sub(o.until) > o.timeout/4 && !o.closed.Load() && !o.recalled {
		o.until = until
		_ = o.nc.SetWriteDeadline(until)
	}
}

// lift removes the deadline. Called with o.mu held.
func (o *outbox) lift() {
	o.until = time.Time{}
	if !o.closed.Load() {
		_ = o.nc.SetWriteDeadline(time.Time{})
	}
}

// take returns what was appended since. If there is nothing, it ends the caller's turn as the writer.
func (o *outbox) take() []chunk {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.repay(nil)
	if len(o.chunks) == 0 {
		o.rest()
		return nil
	}
	chunks := o.chunks
	o.chunks, o.spare = o.spare, nil
	o.urgent.Store(false)
	o.patient.Store(false)
	return chunks
}

// rest ends the turn of a writer. Called with o.mu held.
func (o *outbox) rest() {
	o.writing = false
	o.idle.broadcast()
}

func (o *outbox) reuse(chunks []chunk) {
	if cap(chunks) <= 64 {
		o.mu.Lock()
		o.spare = chunks[:0]
		o.mu.Unlock()
	}
}

// wrote records that the first n bytes of chunks were written, and returns the rest.
func (o *outbox) wrote(chunks []chunk, n int) []chunk {
	if n > 0 {
		o.stuck = time.Time{}
	}
	bytes, replies := int64(n), int64(0)
	for len(chunks) > 0 && n >= len(chunks[0].b) {
		n -= len(chunks[0].b)
		replies += chunks[0].replies
		chunks[0].free()
		chunks = chunks[1:]
	}
	if n > 0 {
		chunks[0].b = chunks[0].b[n:]
	}
	o.mu.Lock()
	parked, unread := o.bytes.Add(-bytes), o.replies.Add(-replies)
	o.tally()
	if parked <= o.soft || unread <= o.soft { // not all who wait are ready
		o.room.broadcast()
	}
	o.mu.Unlock()
	return chunks
}

// lost ends the writer's turn and the connection after a failed write. That may take some time. Until then
// nothing is written after a frame that was cut off.
func (o *outbox) lost(chunks []chunk, err error) {
	freeAll(chunks)
	o.mu.Lock()
	o.broken, o.recalled = true, false
	dropped := o.drop()
	o.rest()
	o.mu.Unlock()
	freeAll(dropped)
	o.failed(err)
}

// drop returns what no writer has taken: whole frames. Called with o.mu held.
func (o *outbox) drop() []chunk {
	dropped := o.chunks
	o.chunks = nil
	for i := range dropped {
		o.bytes.Add(-int64(len(dropped[i].b)))
		o.replies.Add(-dropped[i].replies)
	}
	return dropped
}

func freeAll(chunks []chunk) {
	for i := range chunks {
		chunks[i].free()
	}
}

func (c *chunk) free() {
	if c.loan != nil {
		c.loan.giveBack()
	}
	c.buf.free()
	if c.msg != nil {
		c.msg.unref()
	}
	*c = chunk{}
}
