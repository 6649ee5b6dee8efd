package vat

import (
	"net"
	"sync"
	"sync/atomic"
	"time"

	"capd/meter"
)

// An outbox holds frames on their way to the peer. It copies small frames together, and writes large ones
// from their own memory. Whoever sends something writes as long as the socket takes it without waiting. A
// goroutine writes the rest and ends when all is written. So append never waits for the peer. Those who
// should wait for it (the reader, handlers about to start, Send) wait for room.
//
// The reader and handlers wait only for room for replies. If they waited for calls to leave too, two peers
// that call each other could both stop reading.
type outbox struct {
	nc      net.Conn
	sock    *socket // nil: every write may block
	seal    *sealer // nil: no TLS, or one whose writes may block
	inline  int     // up to this many bytes a frame is copied into a buffer with its neighbours
	soft    int64   // bytes above which there is no room
	max     int64   // bytes above which the connection ends
	meter   atomic.Pointer[meter.Meter]
	timeout time.Duration // for a write to make any progress
	failed  func(error)   // ends the connection; called without locks

	// These change only with mu held, and may be read without it.
	bytes   atomic.Int64 // appended and not written
	replies atomic.Int64 // those of them that are not of calls
	urgent  atomic.Bool  // the peer waits for something that was appended
	patient atomic.Bool  // answers of a stream were appended: they leave before the reader waits
	soon    atomic.Bool  // a flush of calls that nobody waits for is scheduled
	closed  atomic.Bool

	mu       sync.Mutex
	until    time.Time // the deadline for writing; it remains when all is written
	stuck    time.Time // used by the writer: since when the peer has taken nothing
	chunks   []chunk
	spare    []chunk
	vec      [][]byte // used by the writer
	held     int64    // reserved for results that are being made
	counted  int64    // what meter counts for replies
	calling  int64    // bytes of calls that are about to be appended
	timer    bool     // a flush of what is not urgent is scheduled
	writing  bool
	broken   bool          // a frame was cut off, so nothing may follow it
	recalled bool          // the writer is to give loans back; the deadline is in the past
	room     signal        // there is room again
	line     chan struct{} // held by the call that waits for room: see reserve
	idle     signal        // a writer has ended
}

// A chunk is contiguous bytes: a buffer of small frames that may still grow, or part of a message.
type chunk struct {
	b       []byte
	replies int64 // bytes of frames that are not of calls; they count until the whole chunk is written
	buf     *buffer
	msg     *message
	loan    *loan // b is memory of a caller
}

const (
	coalesceBytes = 64 << 10  // small frames are copied together up to this size
	writeBytes    = 256 << 10 // the most in one blocking write, which has a deadline
	eagerBytes    = 96 << 10  // more than this does not wait for later frames
	maxVec        = 16        // chunks in one write
	streamAhead   = 512 << 10 // parked bytes above which a stream waits
)

// errParked ends a connection that exceeds Limits.ParkedMax.
var errParked = protocolf("limit: the peer reads too slowly")

// lazyFlush is how long a frame that the peer does not wait for may wait for other frames to leave with.
const lazyFlush = 25 * time.Millisecond

// soonFlush is how long a call that its caller does not wait for may wait for other frames to leave with.
const soonFlush = 500 * time.Microsecond

// append queues the frame of m. m may be released at once. A frame that is not urgent is an answer of a
// stream. It leaves with the next urgent frame, or before the reader waits for the peer.
func (o *outbox) append(m *message, urgent bool) {
	head, body, tail, whole := m.frame()
	size := frameHeader + len(body) + len(tail)
	reply := m.kind != aCall
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.shut() {
		return
	}
	o.count(size, reply, urgent)
	if !urgent {
		o.patient.Store(true)
	}
	switch {
	case size <= o.inline:
		o.small(reply, size, head[:], body, tail)
	case whole != nil:
		o.large(reply, whole, m)
	case tail != nil:
		o.small(reply, frameHeader+len(body), head[:], body)
		o.large(reply, tail, m)
	default:
		o.small(reply, frameHeader, head[:])
		o.large(reply, body, m)
	}
}

// shut reports whether frames are dropped from now on. Called with o.mu held.
func (o *outbox) shut() bool { return o.closed.Load() || o.broken }

// short is append for a Finish or a Release. One that is not urgent leaves with the next urgent frame, or
// soon after.
func (o *outbox) short(f shortFrame, urgent bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if !o.shut() {
		o.count(len(f), true, urgent)
		o.small(true, len(f), f[:])
	}
}

// count records that size bytes are appended. Called with o.mu held.
func (o *outbox) count(size int, reply, urgent bool) {
	o.bytes.Add(int64(size))
	if reply {
		o.replies.Add(int64(size))
		o.tally()
	}
	if urgent {
		o.urgent.Store(true)
	} else if !o.timer && !o.urgent.Load() {
		o.timer = true
		time.AfterFunc(lazyFlush, o.late)
	}
}

// small copies parts, of size bytes in all, into the last buffer, or into a new one.
func (o *outbox) small(reply bool, size int, parts ...[]byte) {
	last := len(o.chunks) - 1
	if last < 0 || o.chunks[last].buf == nil || len(o.chunks[last].b)+size > cap(o.chunks[last].b) {
		// The first buffer is small, for a frame that is alone. The later ones are larger, since there are
		// more frames.
		n := max(size, 4<<10)
		if last >= 0 && o.chunks[last].buf != nil {
			n = max(size, coalesceBytes)
		}
		buf := getBuffer(n)
		o.chunks = append(o.chunks, chunk{b: buf.b[:0], buf: buf})
		last++
	}
	c := &o.chunks[last]
	for _, p := range parts {
		c.b = append(c.b, p...)
	}
	if reply {
		c.replies += int64(size)
	}
}

// large queues b, which is part of m, without copying it.
func (o *outbox) large(reply bool, b []byte, m *message) {
	c := chunk{b: b, msg: m.ref()}
	if c.loan = m.tail.loan; c.loan != nil {
		c.loan.take()
	}
	if reply {
		c.replies = int64(len(b))
	}
	o.chunks = append(o.chunks, c)
}

func (o *outbox) late() {
	o.mu.Lock()
	o.timer = false
	o.mu.Unlock()
	o.flush()
}

// flushSoon flushes at once if there is much to write, and soon otherwise.
func (o *outbox) flushSoon() {
	if o.bytes.Load() >= eagerBytes {
		o.flush()
	} else if o.soon.CompareAndSwap(false, true) {
		time.AfterFunc(soonFlush, func() {
			o.soon.Store(false)
			o.flush()
		})
	}
}

// flushUrgent flushes if the peer waits for something.
func (o *outbox) flushUrgent() {
	if o.urgent.Load() {
		o.flush()
	}
}

// flushMuch flushes if there is much to write.
func (o *outbox) flushMuch() {
	if o.bytes.Load() >= eagerBytes {
		o.flush()
	}
}

// flush starts to write what was appended. It does not block.
func (o *outbox) flush() { o.flushUntil(nil) }

// flushUntil is flush, but writes until l is back, if l is not nil.
func (o *outbox) flushUntil(l *loan) {
	o.mu.Lock()
	if o.bytes.Load() > o.max && !o.closed.Load() {
		o.mu.Unlock()
		o.failed(errParked)
		return
	}
	if o.writing || o.closed.Load() || len(o.chunks) == 0 {
		o.mu.Unlock()
		return
	}
	o.writing = true
	o.mu.Unlock()
	if o.sock == nil {
		go o.drain(nil)
		return
	}
	full, waited := false, false
	for {
		chunks := o.take()
		if chunks == nil {
			return
		}
		for rest := chunks; len(rest) > 0; {
			if full {
				if !l.isOut() {
					go o.drain(rest)
					return
				}
				if !waited {
					waited = true
					defer o.recallAfter(l)()
				}
				o.bound()
			}
			var n int
			var err error
			n, full, err = o.write(rest, full)
			rest = o.wrote(rest, n)
			if err != nil && !o.interrupted(rest, err) {
				o.lost(rest, err)
				return
			}
		}
		o.reuse(chunks)
	}
}

func (o *outbox) parked() int64 { return o.bytes.Load() }

// close accepts no more frames, waits up to grace until those that are there have left, and drops the rest.
// Afterwards the caller closes the socket.
func (o *outbox) close(grace time.Duration) {
	o.mu.Lock()
	if o.closed.Load() {
		o.mu.Unlock()
		return
	}
	o.closed.Store(true)
	o.room.broadcast()
	_ = o.nc.SetWriteDeadline(time.Now().Add(grace))
	var idle <-chan struct{}
	switch {
	case o.writing:
		idle = o.idle.next()
	case len(o.chunks) > 0 && grace > 0:
		o.writing = true
		idle = o.idle.next()
		go o.drain(nil)
	}
	o.mu.Unlock()
	if idle != nil && grace > 0 {
		timer := time.NewTimer(grace)
		select {
		case <-idle:
		case <-timer.C:
		}
		timer.Stop()
	}
	o.mu.Lock()
	chunks := o.drop()
	adjust(o.meter.Load(), meter.ReplyBytes, &o.counted, 0) // for good
	o.mu.Unlock()
	if o.seal != nil {
		o.mu.Lock()
		o.seal.g.end(o.writing || o.broken || len(chunks) > 0) // TLS sends its close notice after this
		o.mu.Unlock()
	}
	freeAll(chunks)
}
