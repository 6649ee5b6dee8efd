package vat

// Waiting for the peer to read what it was sent: room in an outbox.

// waitReplies waits until the peer has read enough of what it was answered. It reports false when the outbox was
// closed.
func (o *outbox) waitReplies() bool {
	return o.hasRoom() || o.wait(nil, func() bool { return o.replies.Load() <= o.soft })
}

// hasRoom reports whether waitReplies would not wait.
func (o *outbox) hasRoom() bool { return !o.closed.Load() && o.replies.Load() <= o.soft }

// waitRoom waits until the peer has read enough of everything. It reports false when the outbox was closed, or done
// was.
func (o *outbox) waitRoom(done <-chan struct{}) bool {
	return o.wait(done, func() bool { return o.bytes.Load() <= o.soft })
}

// waitStream is waitRoom for a call of a stream: more than a little ahead of the socket would only be more memory to go
// through.
func (o *outbox) waitStream(done <-chan struct{}) bool {
	return o.wait(done, func() bool { return o.bytes.Load() <= min(streamAhead, o.soft) })
}

// reserve waits until n more bytes of results go with what is parked and what others have reserved, or until they
// are all there is. release gives them back once the results were appended. It reports false when the outbox was
// closed, or done was.
func (o *outbox) reserve(n int64, done <-chan struct{}) bool {
	return o.wait(done, func() bool {
		have := o.replies.Load() + o.held
		if have > 0 && have+n > o.soft {
			return false
		}
		o.held += n
		return true
	})
}

// wait waits until ready, which is called with o.mu held.
func (o *outbox) wait(done <-chan struct{}, ready func() bool) bool {
	for {
		o.mu.Lock()
		if o.closed.Load() {
			o.mu.Unlock()
			return false
		}
		if ready() {
			o.mu.Unlock()
			return true
		}
		if o.room == nil {
			o.room = make(chan struct{})
		}
		room := o.room
		o.mu.Unlock()
		o.flush()
		select {
		case <-room:
		case <-done:
			return false
		}
	}
}

// reserveCall is waitRoom, and counts a call of n bytes from then on, so that others see it before it is appended.
// releaseCall ends that.
func (o *outbox) reserveCall(n int64, done <-chan struct{}) bool {
	return o.wait(done, func() bool {
		if o.bytes.Load() > o.soft || o.calling > o.soft {
			return false
		}
		o.calling += n
		return true
	})
}

func (o *outbox) release(n int64)     { o.unreserve(&o.held, n) }
func (o *outbox) releaseCall(n int64) { o.unreserve(&o.calling, n) }

func (o *outbox) unreserve(of *int64, n int64) {
	o.mu.Lock()
	*of -= n
	if o.room != nil {
		close(o.room)
		o.room = nil
	}
	o.mu.Unlock()
}
