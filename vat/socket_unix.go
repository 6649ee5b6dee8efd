//go:build linux || darwin

package vat

import (
	"io"
	"net"
	"syscall"

	"golang.org/x/sys/unix"
)

// socketBytes is the size of a Unix socket's buffer, so that a large message can be written, and then read,
// at once. Linux doubles it for its own needs, and allocates the memory only as it is used.
const socketBytes = 512 << 10

// A socket reads and writes a connection's descriptor. It can do so without waiting, or wait without holding
// any memory. One goroutine reads and one writes at a time.
type socket struct {
	raw     syscall.RawConn
	in, out transfer
}

// A transfer is one read or write. It lives as long as its socket, so that a read or write allocates nothing.
type transfer struct {
	run   func(fd uintptr) bool // reports true to end and false to wait
	parts [][]byte
	wait  bool            // if the socket is not ready
	lend  func() [][]byte // of a read: returns memory, when there may be something to read
	give  func()          // takes it back when there is nothing
	n     int
	full  bool
	err   error
}

// socketOf returns the socket of nc, or nil. It knows only the connections of package net: a type that embeds
// one may have a Write of its own.
func socketOf(nc net.Conn) *socket {
	var raw syscall.RawConn
	var err error
	switch nc := nc.(type) {
	case *net.UnixConn:
		_ = nc.SetWriteBuffer(socketBytes) // as far as the system allows
		raw, err = nc.SyscallConn()
	case *net.TCPConn:
		raw, err = nc.SyscallConn()
	default:
		return nil
	}
	if err != nil {
		return nil
	}
	s := &socket{raw: raw}
	s.in.run, s.out.run = s.in.read, s.out.write
	return s
}

// write writes as much of parts as the socket takes without waiting, and reports whether the socket is full.
// With wait, it waits until the socket takes something.
func (s *socket) write(parts [][]byte, wait bool) (n int, full bool, err error) {
	t := &s.out
	t.parts, t.wait, t.n, t.full, t.err = parts, wait, 0, false, nil
	err = s.raw.Write(t.run)
	if t.err != nil {
		err = t.err
	}
	t.parts = nil
	return t.n, t.full, err
}

func (t *transfer) write(fd uintptr) bool {
	for len(t.parts) > 0 {
		var w int
		if len(t.parts) == 1 {
			w, t.err = unix.Write(int(fd), t.parts[0])
		} else {
			w, t.err = unix.Writev(int(fd), t.parts)
		}
		switch {
		case t.err == unix.EINTR:
			continue
		case t.err == unix.EAGAIN:
			t.full, t.err = true, nil
			return !t.wait || t.n > 0
		case t.err != nil:
			return true
		}
		for t.n += w; len(t.parts) > 0 && w >= len(t.parts[0]); t.parts = t.parts[1:] {
			w -= len(t.parts[0])
		}
		if w > 0 {
			t.parts[0] = t.parts[0][w:]
		}
	}
	return true
}

// read waits until there is something to read, and reads it into the memory that lend returns. give takes
// that memory back while there is nothing. If wait is false, read returns errNothing instead of waiting.
func (s *socket) read(lend func() [][]byte, give func(), wait bool) (n int, err error) {
	t := &s.in
	t.lend, t.give, t.wait, t.n, t.err = lend, give, wait, 0, nil
	err = s.raw.Read(t.run)
	if t.err != nil {
		err = t.err
	}
	if err == nil && t.n == 0 {
		err = io.EOF
	}
	return t.n, err
}

func (t *transfer) read(fd uintptr) bool {
	parts := t.lend()
	for {
		if len(parts) == 1 {
			t.n, t.err = unix.Read(int(fd), parts[0])
		} else {
			t.n, t.err = unix.Readv(int(fd), parts)
		}
		switch t.err {
		case nil:
			return true
		case unix.EINTR:
			continue
		}
		t.n = 0
		t.give()
		if t.err == unix.EAGAIN {
			if t.err = nil; !t.wait {
				t.err = errNothing
			}
			return !t.wait
		}
		return true
	}
}
