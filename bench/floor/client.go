package floor

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"sync/atomic"
)

// A Client makes calls over one connection. Any number of goroutines may call at once.
//
// If nobody else is reading, a caller reads replies itself until its own has come. If other calls are then
// outstanding, the client's goroutine reads for them until none is. So a single caller wakes no other
// goroutine, and many callers do not pass the reading on from one to the next.
type Client struct {
	conn net.Conn
	r    *bufio.Reader // used by the goroutine that reads

	writers atomic.Int32 // callers that wait to write
	writing sync.Mutex
	w       *writer

	mu      sync.Mutex
	table   []*call // by call number
	free    []*call // calls of table that are not in use
	open    int     // calls without a reply
	reading bool    // somebody reads
	err     error   // why the connection ended

	more chan struct{} // tells the client's goroutine to read
}

// A call is a row of the correlation table.
type call struct {
	id    uint32
	into  []byte // where the reply goes
	n     int
	err   error
	done  chan struct{}
	taken bool
}

// NewClient returns a client that calls over conn, and takes over conn.
func NewClient(conn net.Conn) *Client {
	c := &Client{conn: conn, r: bufio.NewReaderSize(conn, bufferBytes), w: newWriter(conn), more: make(chan struct{}, 1)}
	go c.readForOthers()
	return c
}

// write writes a frame. If other callers wait to write, the last of them writes for all.
func (c *Client) write(id, op uint32, payload []byte) error {
	c.writers.Add(1)
	c.writing.Lock()
	defer c.writing.Unlock()
	c.w.frame(id, op, payload)
	if c.writers.Add(-1) > 0 && !c.w.full() {
		return nil
	}
	return c.w.flush()
}

// Close ends the connection and every call.
func (c *Client) Close() error {
	err := c.conn.Close()
	c.mu.Lock()
	defer c.mu.Unlock()
	c.fail(net.ErrClosed)
	return err
}

// call makes one call, and returns how many bytes of the reply it wrote to into.
func (c *Client) call(op uint32, payload, into []byte) (int, error) {
	c.mu.Lock()
	if c.err != nil {
		c.mu.Unlock()
		return 0, c.err
	}
	var k *call
	if last := len(c.free) - 1; last >= 0 {
		k, c.free = c.free[last], c.free[:last]
	} else {
		k = &call{id: uint32(len(c.table)), done: make(chan struct{}, 1)}
		c.table = append(c.table, k)
	}
	k.into, k.taken = into, true
	c.open++
	c.mu.Unlock()
	if err := c.write(k.id, op, payload); err != nil {
		c.conn.Close() // the reading goroutine ends every call
	}
	c.readOwn(k)
	<-k.done
	n, err := k.n, k.err
	c.mu.Lock()
	k.err, k.taken = nil, false
	c.free = append(c.free, k)
	c.mu.Unlock()
	return n, err
}

// readOwn reads until k has its reply, unless somebody else reads.
func (c *Client) readOwn(k *call) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.reading || c.err != nil {
		return
	}
	c.reading = true
	for c.err == nil && len(k.done) == 0 {
		c.reply()
	}
	if c.open > 0 && c.err == nil {
		c.more <- struct{}{} // that goroutine goes on reading
		return
	}
	c.reading = false
}

// readForOthers reads whenever it is told to, until no call is outstanding.
func (c *Client) readForOthers() {
	for range c.more {
		c.mu.Lock()
		for c.err == nil && c.open > 0 {
			c.reply()
		}
		c.reading = false
		if c.err != nil {
			c.mu.Unlock()
			return
		}
		c.mu.Unlock()
	}
}

// reply reads one reply. mu is held when it is called, and is released while it reads.
func (c *Client) reply() {
	c.mu.Unlock()
	k, err := c.next()
	c.mu.Lock()
	if err != nil {
		c.fail(err)
		return
	}
	c.open--
	k.done <- struct{}{}
}

// fail ends every call. mu is held.
func (c *Client) fail(err error) {
	if c.err != nil {
		return
	}
	c.err = fmt.Errorf("the connection ended: %w", err)
	for _, k := range c.table {
		if k.taken {
			k.err = c.err
			select {
			case k.done <- struct{}{}:
			default: // it was answered before
			}
		}
	}
}

// next reads the next reply into the memory of its call.
func (c *Client) next() (*call, error) {
	head, err := c.r.Peek(headerBytes)
	if err != nil {
		return nil, err
	}
	length, id, op := header(head)
	_, _ = c.r.Discard(headerBytes)
	c.mu.Lock()
	if int(id) >= len(c.table) || !c.table[id].taken {
		c.mu.Unlock()
		return nil, fmt.Errorf("a reply to no call: %d", id)
	}
	k := c.table[id]
	c.mu.Unlock()
	switch {
	case op == opFailed:
		why := make([]byte, length)
		if _, err := io.ReadFull(c.r, why); err != nil {
			return nil, err
		}
		k.err = errors.New(string(why))
		return k, nil
	case length > len(k.into):
		return nil, fmt.Errorf("a reply of %d bytes, and there is room for %d", length, len(k.into))
	}
	k.n, err = io.ReadFull(c.r, k.into[:length])
	return k, err
}

// PingPong makes one call at a time, on the caller's goroutine: it writes to the connection, and then reads.
type PingPong struct {
	r *bufio.Reader
	w *writer
}

// NewPingPong returns a PingPong over conn, and takes over conn.
func NewPingPong(conn net.Conn) *PingPong {
	return &PingPong{bufio.NewReaderSize(conn, bufferBytes), newWriter(conn)}
}

func (c *PingPong) call(op uint32, payload, into []byte) (int, error) {
	c.w.frame(0, op, payload)
	if err := c.w.flush(); err != nil {
		return 0, err
	}
	head, err := c.r.Peek(headerBytes)
	if err != nil {
		return 0, err
	}
	length, _, op := header(head)
	_, _ = c.r.Discard(headerBytes)
	if op == opFailed || length > len(into) {
		return 0, fmt.Errorf("the reply is an error, or too long")
	}
	_, err = io.ReadFull(c.r, into[:length])
	return length, err
}
