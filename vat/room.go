package vat

import (
	"context"
	"errors"

	"capd/meter"
)

// Room in an outbox: waiting until the peer has read what it was sent. The methods that wait return errClosed
// if the outbox was closed, ctx's error if it ended, and that of [meter.Turn.Wait] if too many wait.

// errClosed is the error of a wait for room after the connection has ended.
var errClosed = errors.New("vat: the connection has ended")

// waitReplies waits until the peer has read enough of the replies to it.
func (o *outbox) waitReplies(ctx context.Context) error {
	if o.hasRoom() {
		return nil
	}
	return o.wait(ctx, o.read)
}

// hasRoom reports whether waitReplies would return at once.
func (o *outbox) hasRoom() bool { return !o.closed.Load() && o.read() }

// read reports whether the peer has read enough of the replies to it. It must have read more while the connections
// of one meter have too many unread replies together.
func (o *outbox) read() bool {
	n := o.replies.Load()
	if n <= heldFree {
		return true
	}
	full, _ := o.meter.Load().Passed(meter.ReplyBytes)
	return full == nil && n <= o.soft
}

// tally updates what the meter counts for unread replies. Called with o.mu held.
func (o *outbox) tally() {
	n := o.replies.Load()
	if n <= heldFree && o.counted == 0 || o.closed.Load() {
		return
	}
	adjust(o.meter.Load(), meter.ReplyBytes, &o.counted, steps(n, o.counted))
}

// setMeter moves what the meter counts to another meter.
func (o *outbox) setMeter(m *meter.Meter) {
	o.mu.Lock()
	defer o.mu.Unlock()
	counted := o.counted
	adjust(o.meter.Load(), meter.ReplyBytes, &o.counted, 0)
	o.meter.Store(m)
	adjust(m, meter.ReplyBytes, &o.counted, counted)
}

// waitRoom waits until the peer has read enough of everything.
func (o *outbox) waitRoom(ctx context.Context) error {
	return o.wait(ctx, func() bool { return o.bytes.Load() <= o.soft })
}

// waitStream is waitRoom for a call of a stream. It lets a stream be only a little ahead of the socket, since
// more would only use more memory.
func (o *outbox) waitStream(ctx context.Context) error {
	return o.wait(ctx, func() bool { return o.bytes.Load() <= min(streamAhead, o.soft) })
}

// reserve waits until n bytes of results fit beside the waiting frames and what others have reserved, or
// until there are no others. m counts them, too. release gives them back once the results were appended.
//
// Only one call of a connection waits for room at a time. The others stand in line for that, or each read of
// the peer would wake them all.
func (o *outbox) reserve(ctx context.Context, m *meter.Meter, n int64) error {
	line := o.inLine()
	select {
	case line <- struct{}{}:
		now := o.reserveNow(m, n)
		<-line
		if now {
			return nil
		}
	default:
	}
	t := meter.TurnOf(ctx)
	if t == nil {
		return o.reserveNext(ctx, m, n)
	}
	ran := false
	var err error
	late := t.Wait(ctx, func() { ran, err = true, o.reserveNext(ctx, m, n) })
	if ran && err == nil && late != nil {
		o.release(m, n)
	}
	if err == nil {
		err = late
	}
	return err
}

// inLine returns a channel that is full while a call waits for room.
func (o *outbox) inLine() chan struct{} {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.line == nil {
		o.line = make(chan struct{}, 1)
	}
	return o.line
}

// reserveNow reserves n bytes if that needs no wait. It reports whether it did.
func (o *outbox) reserveNow(m *meter.Meter, n int64) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.closed.Load() || !o.fits(n) || !m.TakeFirst(meter.ReplyBytes, n) {
		return false
	}
	o.held += n
	return true
}

// reserveNext is reserve for a call that stands in line.
func (o *outbox) reserveNext(ctx context.Context, m *meter.Meter, n int64) error {
	select {
	case o.line <- struct{}{}:
		defer func() { <-o.line }()
	case <-ctx.Done():
		return ctx.Err()
	}
	claim := m.Claim(meter.ReplyBytes)
	defer claim.End()
	fits := func() bool { return o.fits(n) }
	for {
		if !o.ready(fits) {
			claim.End() // does not hold up others while this peer does not read
			if err := o.waitFor(ctx, fits); err != nil {
				return err
			}
		}
		if claim.Take(n) {
			o.mu.Lock()
			o.held += n
			o.mu.Unlock()
			return nil
		}
		select {
		case <-claim.Again():
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// fits reports whether n more bytes of results fit. Called with o.mu held.
func (o *outbox) fits(n int64) bool {
	have := o.replies.Load() + o.held
	return have == 0 || have+n <= o.soft
}

// wait waits until ready returns true. It calls ready with o.mu held. Others can use ctx's turn meanwhile.
func (o *outbox) wait(ctx context.Context, ready func() bool) (err error) {
	t := meter.TurnOf(ctx)
	if t == nil {
		return o.waitFor(ctx, ready)
	}
	if o.ready(ready) {
		return nil
	}
	late := t.Wait(ctx, func() { err = o.waitFor(ctx, ready) })
	if err == nil {
		err = late
	}
	return err
}

// ready reports whether waitFor would return at once.
func (o *outbox) ready(ready func() bool) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return !o.closed.Load() && ready()
}

func (o *outbox) waitFor(ctx context.Context, ready func() bool) error {
	for {
		o.mu.Lock()
		if o.closed.Load() {
			o.mu.Unlock()
			return errClosed
		}
		if ready() {
			o.mu.Unlock()
			return nil
		}
		room := o.room.next()
		o.mu.Unlock()
		o.flush()
		select {
		case <-room:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// reserveCall is waitRoom, and then counts a call of n bytes, so that other calls see it before it is
// appended. releaseCall ends that.
func (o *outbox) reserveCall(ctx context.Context, n int64) error {
	taken := false
	err := o.wait(ctx, func() bool {
		if o.bytes.Load() > o.soft || o.calling > o.soft {
			return false
		}
		o.calling += n
		taken = true
		return true
	})
	if taken && err != nil {
		o.releaseCall(n)
	}
	return err
}

func (o *outbox) release(m *meter.Meter, n int64) {
	o.unreserve(&o.held, n)
	m.Give(meter.ReplyBytes, n)
}

func (o *outbox) releaseCall(n int64) { o.unreserve(&o.calling, n) }

func (o *outbox) unreserve(of *int64, n int64) {
	o.mu.Lock()
	*of -= n
	o.room.broadcast()
	o.mu.Unlock()
}
