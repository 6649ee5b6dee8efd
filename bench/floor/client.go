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
type Client struct {
	conn net.Conn

	writers atomic.Int32 // that wait for writing
	writing sync.Mutex
	w       *writer

	mu    sync.Mutex
	table []*call // by number
	free  []*call // of table, not in use
	err   error   // why the connection ended
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

// NewClient calls over conn, which it takes over.
func NewClient(conn net.Conn) *Client {
	c := &Client{conn: conn, w: newWriter(conn)}
	go c.read()
	return c
}

// write writes a frame. Where other callers wait to write theirs, the last of them writes for all.
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
func (c *Client) Close() error { return c.conn.Close() }

// call makes one call and returns how many bytes of the reply are in into.
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
	c.mu.Unlock()
	if err := c.write(k.id, op, payload); err != nil {
		c.conn.Close() // ends every call
	}
	<-k.done
	n, err := k.n, k.err
	c.mu.Lock()
	k.err, k.taken = nil, false
	c.free = append(c.free, k)
	c.mu.Unlock()
	return n, err
}

// read hands replies to the calls that wait for them.
func (c *Client) read() {
	err := c.replies(bufio.NewReaderSize(c.conn, bufferBytes))
	c.mu.Lock()
	defer c.mu.Unlock()
	c.err = fmt.Errorf("the connection ended: %w", err)
	for _, k := range c.table {
		if k.taken {
			k.err = c.err
			select {
			case k.done <- struct{}{}:
			default: // answered before
			}
		}
	}
}

func (c *Client) replies(r *bufio.Reader) error {
	for {
		head, err := r.Peek(headerBytes)
		if err != nil {
			return err
		}
		length, id, op := header(head)
		_, _ = r.Discard(headerBytes)
		c.mu.Lock()
		if int(id) >= len(c.table) || !c.table[id].taken {
			c.mu.Unlock()
			return fmt.Errorf("a reply to no call: %d", id)
		}
		k := c.table[id]
		c.mu.Unlock()
		switch {
		case op == opFailed:
			why := make([]byte, length)
			if _, err := io.ReadFull(r, why); err != nil {
				return err
			}
			k.err = errors.New(string(why))
		case length > len(k.into):
			return fmt.Errorf("a reply of %d bytes, and there is room for %d", length, len(k.into))
		default:
			if _, err := io.ReadFull(r, k.into[:length]); err != nil {
				return err
			}
			k.n = length
		}
		k.done <- struct{}{}
	}
}

// PingPong makes calls one at a time, on the goroutine that calls: the connection is written, and then read.
type PingPong struct {
	r *bufio.Reader
	w *writer
}

// NewPingPong calls over conn, which it takes over.
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
