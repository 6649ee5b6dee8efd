package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"
)

// interrupts catches the signals that end capd. The first ends the program that
// capd runs. Without this the second would end capd before it has kept what the
// program did.
type interrupts chan os.Signal

func catchInterrupts() interrupts {
	c := make(interrupts, 8)
	signal.Notify(c, os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	return c
}

// context returns a context for work that has to be done although e has ended. The
// next signal ends it.
func (c interrupts) context(e *env) (ctx context.Context, done func()) {
	for len(c) > 0 {
		<-c
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(e))
	go func() {
		select {
		case <-c:
			cancel()
		case <-ctx.Done():
		}
	}()
	return ctx, cancel
}

// stop lets signals end capd again.
func (c interrupts) stop() { signal.Stop(c) }
