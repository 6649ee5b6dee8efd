package database

import (
	"sync"
	"time"
)

// laterDelay is how long a write that nobody waits for waits for company.
const laterDelay = 250 * time.Millisecond

const (
	// maxLater is how many of them may be queued.
	maxLater = 65536
	// maxSpare is how many may be queued when one more may be left out.
	maxSpare = 8192
	// maxLaterBatch is how many of them one commit takes.
	maxLaterBatch = 4096
)

// backlog is the writes that nobody waits for.
type backlog struct {
	due chan struct{} // capacity 1

	mu   sync.Mutex
	jobs []*job
}

// Later is a Write that nobody waits for: it is on disk within about a second. While the disk is full it is kept, and
// tried again with the next write. When 65,536 are kept, Write answers busy. After a write of the disk has failed,
// Later drops what it gets.
func (d *DB) Later(do func(*Tx) error) {
	d.gate.RLock()
	defer d.gate.RUnlock()
	if !d.closed && d.Failed() == nil {
		d.later.add(&job{do: do, done: make(chan struct{}), later: true})
	}
}

// Spare is Later for what may be left out. It reports whether it took it: it does not while the disk is so slow, or so full,
// that 8,192 writes wait.
func (d *DB) Spare(do func(*Tx) error) bool {
	if d.later.waiting() >= maxSpare || d.Failed() != nil {
		return false
	}
	d.Later(do)
	return true
}

// add queues jobs behind those that are queued.
func (b *backlog) add(jobs ...*job) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.set(append(b.jobs, jobs...))
}

// back queues jobs again that were taken, before those that are queued.
func (b *backlog) back(jobs []*job) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.set(append(jobs, b.jobs...))
}

// set changes what is queued. The first that is queued sets the time at which all are written. b.mu is held.
func (b *backlog) set(jobs []*job) {
	first := len(b.jobs) == 0
	if b.jobs = jobs; first && len(jobs) > 0 {
		time.AfterFunc(laterDelay, b.tell)
	}
}

func (b *backlog) tell() {
	select {
	case b.due <- struct{}{}:
	default:
	}
}

// take returns what is queued, as much of it as fits into one commit.
func (b *backlog) take() (jobs []*job) {
	b.mu.Lock()
	defer b.mu.Unlock()
	n := min(len(b.jobs), maxLaterBatch)
	jobs, b.jobs = b.jobs[:n:n], b.jobs[n:]
	if len(b.jobs) > 0 {
		b.tell()
	}
	return jobs
}

func (b *backlog) full() bool { return b.waiting() >= maxLater }

func (b *backlog) waiting() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return len(b.jobs)
}
