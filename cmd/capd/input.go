package main

import (
	"context"
	"fmt"
	"io"
	"os"

	"capd/client"
	"capd/state"
	"capd/vfs"
)

// input is standard input. Its reads end when the command is interrupted or the
// connection is lost. A read that has already begun goes on in the background.
type input struct {
	ctx  context.Context
	conn *client.Conn
	r    io.Reader
	got  chan piece
	rest []byte
	err  error
}

type piece struct {
	b   []byte
	err error
}

// interruptible returns e's standard input. It prints a hint when a person has
// to type.
func interruptible(e *env, conn *client.Conn) *input {
	if isTerminal(e.stdin) {
		fmt.Fprintln(e.stderr, "Reading from the terminal; end with Ctrl-D.")
	}
	i := &input{ctx: e, conn: conn, r: e.stdin, got: make(chan piece, 1)}
	if f, ok := e.stdin.(*os.File); ok && wasClosed(f) { // it would be read as empty
		i.err = localError{"standard input is not open; for nothing at all, say </dev/null"}
	}
	return i
}

func (i *input) Read(p []byte) (int, error) {
	if len(i.rest) == 0 && i.err == nil {
		b := make([]byte, max(len(p), 64<<10))
		go func() {
			n, err := i.r.Read(b)
			i.got <- piece{b[:n], err}
		}()
		select {
		case got := <-i.got:
			i.rest, i.err = got.b, got.err
			if i.err != nil && i.err != io.EOF {
				i.err = unreadable("standard input", i.err)
			}
		case <-i.ctx.Done():
			i.err = i.ctx.Err()
		case <-i.conn.Done():
			i.err = i.conn.Err()
		}
	}
	if len(i.rest) > 0 {
		n := copy(p, i.rest)
		i.rest = i.rest[n:]
		return n, nil
	}
	return 0, i.err
}

// unreadable is the error for a file of the user's, or another input, that cannot be read because of err.
func unreadable(name string, err error) error {
	return localError{vfs.Printable(name) + " cannot be read: " + state.Reason(err).Error()}
}
