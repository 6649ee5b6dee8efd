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
	now := time.Now()
	if p.show == nil || now.Sub(p.begun) < time.Second || now.Sub(p.last) < 200*time.Millisecond {
		return
	}
	p.last, p.shown = now, true
	fmt.Fprintf(p.show, "\r%.1f MiB %s, %.1f MiB/s ", float64(p.n)/(1<<20), p.verb, float64(p.n)/(1<<20)/now.Sub(p.begun).Seconds())
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
	now := time.Now()
	if p.show == nil || now.Sub(p.begun) < time.Second || now.Sub(p.last) < 200*time.Millisecond {
		return
	}
	p.last, p.shown = now, true
	fmt.Fprintf(p.show, "\r%d %s, %s ", entries, p.verb, config.Size(bytes))
}
