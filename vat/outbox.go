package vat

import (
	"errors"
	"net"
	"sync"
	"syscall"
	"time"
)

// An outbox holds frames on their way to the peer. Small ones are put together, large ones are written from
// where they lie. Whoever has something to send writes as long as the socket takes it at once; what it does not
// take is left to a goroutine that lives until all is written. So nobody who appends ever waits for the peer,
// and those who ought to (the reader, handlers about to start, Send) call waitRoom.
type outbox struct {
	nc      net.Conn
	raw     syscall.RawConn // nil: every write may block
	soft    int64           // bytes above which waitRoom waits
	max     int64           // bytes above which the connection ends
	timeout time.Duration   // for one write
	failed  func(error)     // ends the connection; called without locks

	mu      sync.Mutex
	chunks  []chunk
	spare   []chunk
	bytes   int64 // appended and not written
	held    int64 // reserved for results that are being made
	urgent  bool  // something was appended that the peer waits for
	timer   bool  // a flush of what is not urgent is due
	writing bool
	closed  bool
	room    chan struct{} // closed when there is room again; made when somebody waits
	idle    chan struct{} // closed when a writer ends; made by close
}

// A chunk is contiguous bytes: a buffer of small frames that may still grow, or part of a message.
type chunk struct {
	b   []byte
	buf *buffer
	msg *message
}

const (
	coalesceBytes = 64 << 10  // small frames are put together up to this size
	writeBytes    = 256 << 10 // at most this much in one blocking write, which has a deadline
)

var errParked = errors.New("vat: the peer reads too slowly")

// rawConn returns what tryWrite needs, or nil. Only for these types themselves: one that embeds them may have a
// Write of its own.
func rawConn(nc net.Conn) syscall.RawConn {
	if !canTryWrite {
		return nil
	}
	var raw syscall.RawConn
	var err error
	switch nc := nc.(type) {
	case *net.UnixConn:
		raw, err = nc.SyscallConn()
	case *net.TCPConn:
		raw, err = nc.SyscallConn()
	}
	if err != nil {
		return nil
	}
	return raw
}

// lazyFlush is how long a frame may wait that the peer does not: for another to leave with.
const lazyFlush = 2 * time.Millisecond

// append queues m's frame. m may be released at once. A frame that is not urgent leaves with the next one that
// is, or soon after.
func (o *outbox) append(m *message, urgent bool) {
	head, body, whole, err := m.frame()
	if err != nil {
		return
	}
	size := frameHeader + len(body)
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.closed {
		return
	}
	o.bytes += int64(size)
	if urgent {
		o.urgent = true
	} else if !o.timer && !o.urgent {
		o.timer = true
		time.AfterFunc(lazyFlush, o.late)
	}
	switch {
	case size <= inlineFrame:
		o.small(size, head[:], body)
	case whole != nil:
		o.chunks = append(o.chunks, chunk{b: whole, msg: m.ref()})
	default:
		o.small(frameHeader, head[:], nil)
		o.chunks = append(o.chunks, chunk{b: body, msg: m.ref()})
	}
}

// small copies parts, size bytes in all, into the last buffer, or into a new one.
func (o *outbox) small(size int, parts ...[]byte) {
	last := len(o.chunks) - 1
	if last < 0 || o.chunks[last].buf == nil || len(o.chunks[last].b)+size > cap(o.chunks[last].b) {
		buf := getBuffer(max(size, 4<<10))
		if last >= 0 {
			buf.free()
			buf = getBuffer(coalesceBytes)
		}
		o.chunks = append(o.chunks, chunk{b: buf.b[:0], buf: buf})
		last++
	}
	for _, p := range parts {
		o.chunks[last].b = append(o.chunks[last].b, p...)
	}
}

func (o *outbox) late() {
	o.mu.Lock()
	o.timer = false
	o.mu.Unlock()
	o.flush()
}

// flushUrgent is flush, if there is something that the peer waits for.
func (o *outbox) flushUrgent() {
	o.mu.Lock()
	urgent := o.urgent
	o.mu.Unlock()
	if urgent {
		o.flush()
	}
}

// flush gets what was appended onto its way. It does not block.
func (o *outbox) flush() {
	o.mu.Lock()
	if o.bytes > o.max && !o.closed {
		o.mu.Unlock()
		o.failed(errParked)
		return
	}
	if o.writing || o.closed || len(o.chunks) == 0 {
		o.mu.Unlock()
		return
	}
	o.writing = true
	o.mu.Unlock()
	if o.raw == nil {
		go o.drain(nil)
		return
	}
	for {
		chunks := o.take()
		if chunks == nil {
			return
		}
		for i := range chunks {
			n, err := tryWrite(o.raw, chunks[i].b)
			if err != nil {
				o.lost(chunks[i:], err)
				return
			}
			if n < len(chunks[i].b) {
				chunks[i].b = chunks[i].b[n:]
				o.wrote(n)
				go o.drain(chunks[i:])
				return
			}
			o.wrote(n)
			chunks[i].free()
		}
		o.reuse(chunks)
	}
}

// drain writes all there is, waiting for the peer.
func (o *outbox) drain(chunks []chunk) {
	if chunks == nil {
		chunks = o.take()
	}
	for chunks != nil {
		for i := range chunks {
			for b := chunks[i].b; len(b) > 0; {
				part := b[:min(len(b), writeBytes)]
				if o.timeout > 0 {
					o.mu.Lock()
					if !o.closed { // close has set a nearer one
						_ = o.nc.SetWriteDeadline(time.Now().Add(o.timeout))
					}
					o.mu.Unlock()
				}
				n, err := o.nc.Write(part)
				o.wrote(n)
				if err != nil {
					o.lost(chunks[i:], err)
					return
				}
				b = b[n:]
			}
			chunks[i].free()
		}
		chunks = o.take()
	}
}

// take returns what was appended since, or ends the caller's turn as the writer when there is nothing.
func (o *outbox) take() []chunk {
	o.mu.Lock()
	defer o.mu.Unlock()
	if len(o.chunks) == 0 {
		o.rest()
		return nil
	}
	chunks := o.chunks
	o.chunks, o.spare, o.urgent = o.spare, nil, false
	return chunks
}

// rest ends a writer's turn.
func (o *outbox) rest() {
	o.writing = false
	if o.idle != nil {
		close(o.idle)
		o.idle = nil
	}
}

func (o *outbox) reuse(chunks []chunk) {
	clear(chunks)
	if cap(chunks) <= 64 {
		o.mu.Lock()
		o.spare = chunks[:0]
		o.mu.Unlock()
	}
}

// wrote notes progress.
func (o *outbox) wrote(n int) {
	o.mu.Lock()
	o.bytes -= int64(n)
	if o.bytes <= o.soft && o.room != nil {
		close(o.room)
		o.room = nil
	}
	o.mu.Unlock()
}

// lost ends the writer's turn, and the connection, after a failed write.
func (o *outbox) lost(chunks []chunk, err error) {
	for i := range chunks {
		chunks[i].free()
	}
	o.mu.Lock()
	o.rest()
	o.mu.Unlock()
	o.failed(err)
}

func (c *chunk) free() {
	c.buf.free()
	if c.msg != nil {
		c.msg.unref()
	}
	*c = chunk{}
}

// waitRoom waits until the peer has read enough. It reports false when the outbox was closed, or done was.
func (o *outbox) waitRoom(done <-chan struct{}) bool {
	for {
		o.mu.Lock()
		if o.closed {
			o.mu.Unlock()
			return false
		}
		if o.bytes <= o.soft {
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

// reserve waits until n more bytes of results go with what is parked and what others have reserved, or until they
// are all there is. release gives them back once the results were appended. It reports false when the outbox was
// closed, or done was.
func (o *outbox) reserve(n int64, done <-chan struct{}) bool {
	for {
		o.mu.Lock()
		if o.closed {
			o.mu.Unlock()
			return false
		}
		if have := o.bytes + o.held; have == 0 || have+n <= o.soft {
			o.held += n
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

func (o *outbox) release(n int64) {
	o.mu.Lock()
	o.held -= n
	if o.room != nil {
		close(o.room)
		o.room = nil
	}
	o.mu.Unlock()
}

func (o *outbox) parked() int64 {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.bytes
}

// close takes no more frames, gives what is there up to grace to leave, and then drops it. The caller closes the
// socket afterwards.
func (o *outbox) close(grace time.Duration) {
	o.mu.Lock()
	if o.closed {
		o.mu.Unlock()
		return
	}
	o.closed = true
	if o.room != nil {
		close(o.room)
		o.room = nil
	}
	_ = o.nc.SetWriteDeadline(time.Now().Add(grace))
	var idle chan struct{}
	switch {
	case o.writing:
		o.idle = make(chan struct{})
		idle = o.idle
	case len(o.chunks) > 0 && grace > 0:
		o.writing = true
		o.idle = make(chan struct{})
		idle = o.idle
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
	chunks := o.chunks
	o.chunks = nil
	o.mu.Unlock()
	for i := range chunks {
		chunks[i].free()
	}
}
