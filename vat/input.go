package vat

import (
	"encoding/binary"
	"errors"
	"io"
	"net"
)

// An input reads a connection through a buffer. It has the buffer only while there is something in it, so an
// idle connection holds none.
type input struct {
	nc   net.Conn
	sock *socket
	out  *outbox // its patient frames leave before a wait

	buf  *buffer
	r, w int    // what is buffered: buf.b[r:w]
	dst  []byte // where a read goes, before the buffer
	vec  [2][]byte

	lendBuffer func() [][]byte // method values, made once
	giveBuffer func()
}

const (
	inputBytes = 64 << 10
	plainBytes = 16 << 10 // largest buffer to hold while nothing comes: that of a TLS record

	aloneBytes  = 128 << 10 // if at least this much of a message is still to come,
	behindBytes = 4 << 10   // a read takes this much of what follows it
)

func newInput(nc net.Conn, sock *socket, out *outbox) *input {
	in := &input{nc: nc, sock: sock, out: out}
	in.lendBuffer, in.giveBuffer = in.lend, in.give
	return in
}

func (in *input) buffered() int { return in.w - in.r }

// peek returns the first n buffered bytes.
func (in *input) peek(n int) []byte { return in.buf.b[in.r : in.r+n] }

// discard drops the first n buffered bytes.
func (in *input) discard(n int) {
	if in.r += n; in.r == in.w {
		in.give()
	}
}

// whole reports whether the next message is completely buffered and has one segment.
func (in *input) whole() bool {
	if in.buffered() < frameHeader {
		return false
	}
	head := in.peek(frameHeader)
	words := uint64(binary.LittleEndian.Uint32(head[4:]))
	return binary.LittleEndian.Uint32(head) == 0 && uint64(in.buffered()) >= frameHeader+8*words
}

// fill reads until n bytes are buffered. n is at most the size of the smallest buffer.
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

// full reads until p is full.
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

// more reads once, into p and, beyond its end, into the buffer. It returns how many bytes went to p.
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
	patient := in.out.patient.Load()
	n, err = in.sock.read(in.lendBuffer, in.giveBuffer, !patient)
	if err == errNothing {
		in.out.flush()
		n, err = in.sock.read(in.lendBuffer, in.giveBuffer, true)
	}
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

// lend returns the memory for a read.
func (in *input) lend() [][]byte {
	if in.buf == nil {
		in.buf, in.r, in.w = getBuffer(inputBytes), 0, 0
	}
	space := in.buf.b[in.w:]
	if len(in.dst) == 0 {
		in.vec[0] = space
		return in.vec[:1]
	}
	if len(in.dst) >= aloneBytes { // another message of that size is likely to follow, and should be read to where it is kept
		space = space[:min(len(space), behindBytes)]
	}
	in.vec[0], in.vec[1] = in.dst, space
	return in.vec[:2]
}

// give returns the buffer if it is empty.
func (in *input) give() {
	in.vec = [2][]byte{}
	if in.buf != nil && in.r == in.w {
		in.buf.free()
		in.buf, in.r, in.w = nil, 0, 0
	}
}

// errNothing means that there is nothing to read yet.
var errNothing = errors.New("vat: nothing to read yet")

// unexpected returns err for the middle of a message: io.EOF becomes io.ErrUnexpectedEOF.
func unexpected(err error) error {
	if err == io.EOF {
		return io.ErrUnexpectedEOF
	}
	return err
}
