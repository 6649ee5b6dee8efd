package main

import (
	"fmt"
	"io"
	"sync"
	"time"

	"capd/config"
)

// progress counts transferred bytes. It shows them on a terminal if the transfer
// takes longer than a moment.
type progress struct {
	r     io.Reader
	w     io.Writer
	show  io.Writer // nil if there is no terminal
	verb  string
	begun time.Time

	mu    sync.Mutex
	n     int64
	last  time.Time
	shown bool
}

// newProgress wraps stream, an io.Reader or an io.Writer.
func newProgress(e *env, stream any, verb string) *progress {
	p := &progress{verb: verb, begun: time.Now()}
	p.r, _ = stream.(io.Reader)
	p.w, _ = stream.(io.Writer)
	if isTerminal(e.stderr) && !isTerminal(stream) {
		p.show = e.stderr
	}
	return p
}

func (p *progress) Read(b []byte) (int, error) {
	n, err := p.r.Read(b)
	p.add(n)
	return n, err
}

func (p *progress) Write(b []byte) (int, error) {
	n, err := p.w.Write(b)
	p.add(n)
	return n, err
}

func (p *progress) add(n int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.n += int64(n)
	if p.due() {
		mib := float64(p.n) / (1 << 20)
		fmt.Fprintf(p.show, "\r%.1f MiB %s, %.1f MiB/s ", mib, p.verb, mib/p.last.Sub(p.begun).Seconds())
	}
}

// due reports whether it is time to show the line again. p.mu is held.
func (p *progress) due() bool {
	now := time.Now()
	if p.show == nil || now.Sub(p.begun) < time.Second || now.Sub(p.last) < 200*time.Millisecond {
		return false
	}
	p.last, p.shown = now, true
	return true
}

// end removes the line.
func (p *progress) end() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.shown {
		fmt.Fprint(p.show, "\r\x1b[K")
		p.shown = false
	}
}

// count sets how far work is that moves no bytes through p.
func (p *progress) count(entries, bytes int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.due() {
		fmt.Fprintf(p.show, "\r%d %s, %s ", entries, p.verb, config.Size(bytes))
	}
}

// entries sets how far work is that moves no bytes at all.
func (p *progress) entries(n int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.due() {
		fmt.Fprintf(p.show, "\r%d %s ", n, p.verb)
	}
}

// waiting says on a terminal what the program waits for, if that takes longer than a moment, until done is called.
func (e *env) waiting(what string) (done func()) {
	if !isTerminal(e.stderr) {
		return func() {}
	}
	said := time.AfterFunc(time.Second, func() { fmt.Fprintln(e.stderr, "capd: waiting "+what) })
	return func() { said.Stop() }
}
