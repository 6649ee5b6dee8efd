package server

import (
	"context"
	"sync"

	"capd/vfs"
)

// phase is how far a Server is. A start that fails makes it fresh again.
type phase int

const (
	fresh phase = iota
	starting
	serving
	ended // Close was called
)

// phases holds the phase of a Server. Whoever has seen it serving may read what Start has set.
type phases struct {
	mu  sync.Mutex
	now phase
}

func (p *phases) phase() phase {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.now
}

// begin makes a fresh Server starting. Otherwise it answers an error.
func (p *phases) begin() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch p.now {
	case fresh:
		p.now = starting
		return nil
	case starting:
		return errStarting
	}
	return vfs.Errorf(vfs.Exists, "this server was started already; make another")
}

// begun ends the start.
func (p *phases) begun(ok bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.now = fresh
	if ok {
		p.now = serving
	}
}

// end makes a Server that serves ended, and returns the phase before.
func (p *phases) end() phase {
	p.mu.Lock()
	defer p.mu.Unlock()
	before := p.now
	if before == serving {
		p.now = ended
	}
	return before
}

var errStarting = vfs.Errorf(vfs.Busy, "this server is being started; wait until Start has returned")

// serves answers an error unless the Server serves.
func (p *phases) serves() error {
	switch p.phase() {
	case serving:
		return nil
	case ended:
		return vfs.Errorf(vfs.Stale, "this server was closed; make another")
	}
	return vfs.Errorf(vfs.Invalid, "this server was not started; call Start first")
}

// ready answers an error unless the Server serves and ctx can be used.
func (p *phases) ready(ctx context.Context) error {
	if err := p.serves(); err != nil {
		return err
	}
	return usable(ctx)
}

// usable answers invalid for a nil context.
func usable(ctx context.Context) error {
	if ctx == nil {
		return vfs.Errorf(vfs.Invalid, "the context is nil; pass context.Background() or one that ends")
	}
	return nil
}
