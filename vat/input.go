package vat

import (
	"encoding/binary"
	"io"
	"net"
)

// An input reads a connection through a buffer that it has only while there is something in it: a connection on
// which nothing happens holds none.
type input struct {
	nc   net.Conn
	sock *socket

	buf  *buffer
	r, w int    // what is buffered: buf.b[r:w]
	dst  []byte // where a read goes, before the buffer
	vec  [2][]byte

	lendBuffer func() [][]byte // method values, made once
	giveBuffer func()
}

const (
	inputBytes = 64 << 10
	plainBytes = 16 << 10 // of a buffer that is held while nothing comes: a TLS record's
)

func newInput(nc net.Conn, sock *socket) *input {
	in := &input{nc: nc, sock: sock}
	in.lendBuffer, in.giveBuffer = in.lend, in.give
	return in
}

func (in *input) buffered() int { return in.w - in.r }

// peek returns the first n bytes of what is buffered.
func (in *input) peek(n int) []byte { return in.buf.b[in.r : in.r+n] }

// discard drops n bytes of what is buffered.
func (in *input) discard(n int) {
	if in.r += n; in.r == in.w {
		in.give()
	}
}

// whole reports whether the next message is buffered as a whole, and has one segment.
func (in *input) whole() bool {
	if in.buffered() < frameHeader {
		return false
	}
	head := in.peek(frameHeader)
	words := uint64(binary.LittleEndian.Uint32(head[4:]))
	return binary.LittleEndian.Uint32(head) == 0 && uint64(in.buffered()) >= frameHeader+8*words
}

// fill reads until n bytes are buffered, which fit the smallest buffer.
func (in *input) fill(n int) error {
	for in.buffered() < n {
		if in.buf != nil && in.r > 0 && in.r+n > len(in.buf.b) {
			in.w = copy(in.buf.b, in.buf.b[in.r:in.w])
			in.r = 0
		}
		if _, err := in.more(nil); err != nil {
			return err
		}
	}
	return nil
}

// full reads all of p.
func (in *input) full(p []byte) (n int, err error) {
	if in.buf != nil {
		n = copy(p, in.buf.b[in.r:in.w])
		in.discard(n)
	}
	for n < len(p) {
		m, err := in.more(p[n:])
		if n += m; err != nil {
			return n, err
		}
	}
	return n, nil
}

// more reads once: into p, and what is beyond p into the buffer. It returns how many bytes went to p.
func (in *input) more(p []byte) (n int, err error) {
	if in.sock == nil {
		if len(p) >= plainBytes {
			return in.nc.Read(p)
		}
		if in.buf == nil {
			in.buf, in.r, in.w = getBuffer(plainBytes), 0, 0
		}
		n, err = in.nc.Read(in.buf.b[in.w:])
		in.w += n
		n = copy(p, in.buf.b[in.r:in.w])
		in.discard(n)
		return n, err
	}
	in.dst = p
	n, err = in.sock.read(in.lendBuffer, in.giveBuffer)
	in.dst = nil
	if n <= len(p) {
		if in.buffered() == 0 {
			in.give()
		}
		return n, err
	}
	in.w += n - len(p)
	return len(p), err
}

// lend returns where a read goes.
func (in *input) lend() [][]byte {
	if in.buf == nil {
		in.buf, in.r, in.w = getBuffer(inputBytes), 0, 0
	}
	space := in.buf.b[in.w:]
	if len(in.dst) == 0 {
		in.vec[0] = space
		return in.vec[:1]
	}
	in.vec[0], in.vec[1] = in.dst, space
	return in.vec[:2]
}

// give gives the buffer back when nothing is in it.
func (in *input) give() {
	in.vec = [2][]byte{}
	if in.buf != nil && in.r == in.w {
		in.buf.free()
		in.buf, in.r, in.w = nil, 0, 0
	}
}

// unexpected is err in the middle of a message.
func unexpected(err error) error {
	if err == io.EOF {
		return io.ErrUnexpectedEOF
	}
	return err
}
