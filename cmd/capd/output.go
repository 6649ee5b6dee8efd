package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"syscall"
	"time"

	"capd/state"
)

// output is standard output. On a terminal, text shows at once. Otherwise it is buffered
// until the buffer is full, or until Flush. The first error is kept, and every later call
// returns it. So a command may print without checking: run checks at its end.
type output struct {
	to   io.Writer
	buf  *bufio.Writer // nil for a terminal
	err  error
	told string // what to print on standard error if this cannot be written
}

func newOutput(to io.Writer) *output {
	o := &output{to: to}
	if !isTerminal(to) {
		o.buf = bufio.NewWriterSize(to, 64<<10)
	}
	return o
}

// Write implements io.Writer.
func (o *output) Write(p []byte) (n int, err error) {
	if o.err != nil {
		return 0, o.err
	}
	if o.buf != nil {
		n, err = o.buf.Write(p)
	} else {
		n, err = o.to.Write(p)
	}
	return n, o.keep(err)
}

// Flush writes the buffer, and returns the first error of all.
func (o *output) Flush() error {
	if o.err == nil && o.buf != nil {
		return o.keep(o.buf.Flush())
	}
	return o.err
}

func (o *output) keep(err error) error {
	if err != nil && o.err == nil {
		o.err = outputError{err}
	}
	return o.err
}

// outputError is the error that standard output could not be written.
type outputError struct{ cause error }

func (o outputError) Error() string {
	return "standard output cannot be written: " + state.Reason(o.cause).Error()
}

func (o outputError) Unwrap() error { return o.cause }

// exitPipe is the exit code that a shell shows for a program ended by SIGPIPE, which ends
// most programs whose reader has gone.
const exitPipe = 128 + 13

// report prints what could not be printed. It prints nothing when the reader wanted no
// more, as in capd ls
//
// head.
func (o *output) report(stderr io.Writer, err outputError) int {
	if o.told == "" && errors.Is(err, syscall.EPIPE) {
		return exitPipe
	}
	fmt.Fprintf(stderr, "capd: %v%s\n", err, o.told)
	return exitRefused
}

// result prints what a command has done and cannot undo. If it cannot print that, capd
// says so on standard error.
func (e *env) result(format string, args ...any) {
	text := fmt.Sprintf(format, args...)
	e.done("%s", text)
	fmt.Fprintln(e.stdout, text)
}

// done sets what is printed on standard error if the output of the command cannot be
// printed: what the command did.
func (e *env) done(format string, args ...any) {
	e.stdout.told = "; it was done nevertheless: " + fmt.Sprintf(format, args...)
}

// uninterrupted returns a context for a call whose answer must be delivered or taken back.
// An interrupt takes effect afterwards.
func (e *env) uninterrupted() (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.WithoutCancel(e), takeBackTimeout)
}

// takeBackTimeout bounds the time to make what is to be delivered, and the time to take it
// back.
const takeBackTimeout = 15 * time.Second

// deliver prints a locator that nobody can print again. If that fails, or if the command
// was interrupted, it revokes the grant of the locator with takeBack. id names the grant for
// the host's operator. It is "" if only takeBack can revoke it.
func (e *env) deliver(id string, takeBack func(context.Context) error, print func() error) error {
	err := print()
	if err == nil {
		err = e.stdout.Flush()
	}
	if err == nil {
		err = e.Err()
	}
	if err == nil {
		return nil
	}
	e.stdout.told = "; so the grant was revoked"
	ctx, cancel := e.uninterrupted()
	defer cancel()
	if back := takeBack(ctx); back != nil {
		e.stdout.told = fmt.Sprintf("; and the grant could not be revoked, so it lives as long as its parent: %v", back)
		if id != "" {
			e.stdout.told = fmt.Sprintf("; and the grant could not be revoked; run capd revoke %s: %v", id, back)
		}
		if _, printing := errors.AsType[outputError](err); !printing {
			return localError{"the locator was not delivered" + e.stdout.told}
		}
	}
	return err
}

// open answers an error if standard output is not open. Then nothing is made that a
// locator would stand for.
func (o *output) open() error {
	if f, ok := o.to.(*os.File); ok && wasClosed(f) {
		return localError{"standard output is not open; nothing was done"}
	}
	return nil
}

// logf tells the host something.
func (e *env) logf(format string, args ...any) { fmt.Fprintf(e.stderr, format+"\n", args...) }
