// Package faultfs wraps a Dir so that chosen operations fail or wait: before they reach
// the store, during their commit, or after they are done. It is for tests.
package faultfs

import (
	"context"
	"sync"

	"capd/vfs"
)

// Op names an operation of any node of a Dir.
type Op string

// The operations.
const (
	Any Op = "*" // every operation

	Stat     Op = "stat"
	Identity Op = "identity"
	Lookup   Op = "lookup"
	List     Op = "list"  // a listing, when it starts and when it has ended
	Entry    Op = "entry" // one entry of a listing: Before it is yielded
	Create   Op = "create"
	Mkdir    Op = "mkdir"
	Replace  Op = "replace"
	Install  Op = "install"
	Symlink  Op = "symlink"
	Remove   Op = "remove"
	Rename   Op = "rename"
	ReadAt   Op = "readAt"
	WriteAt  Op = "writeAt"
	Truncate Op = "truncate"
	Append   Op = "append"
	Sync     Op = "sync"

	Attributes Op = "attributes"

	Version Op = "version"
	Open    Op = "open"
	Content Op = "content" // a read of an open content
	Target  Op = "target"
	Close   Op = "close"

	StageDir Op = "stageDir"
	Place    Op = "place"
	Drop     Op = "drop" // of a StagedDir; it cannot fail
)

// Stage is the point in an operation at which a fault happens.
type Stage uint8

const (
	// Before is before the store is asked.
	Before Stage = iota
	// Commit is inside vfs.Commit: every committer, and so every gate, has been passed,
	// and nothing is changed yet. A failure here changes nothing.
	Commit
	// After is when the store has answered, with or without an error. A failure here
	// loses the answer; what was done stays done.
	After
)

// Plan is the faults of a tree. The zero Plan has none. Its methods may be called from
// several goroutines at once, and while operations run.
type Plan struct {
	mu     sync.Mutex
	faults []*fault
	watch  func(Op, Stage)
}

type fault struct {
	op    Op
	stage Stage
	left  int // the fault happens when it reaches 0; below 0, every time
	err   error
	pause *Pause
}

// Fail makes the nth operation op from now on answer err. Operations are counted from 1
// as they reach the stage. With n = 0 every one fails.
func (p *Plan) Fail(op Op, stage Stage, n int, err error) {
	p.add(&fault{op: op, stage: stage, left: n, err: err})
}

// Pause makes the nth operation op from now on wait until Resume. Operations are
// counted from 1 as they reach the stage. It waits even when its context ends, like a
// stuck system call.
func (p *Plan) Pause(op Op, stage Stage, n int) *Pause {
	pause := &Pause{reached: make(chan struct{}), resume: make(chan struct{})}
	p.add(&fault{op: op, stage: stage, left: max(n, 1), pause: pause})
	return pause
}

// Watch calls f for each operation that reaches a stage, before its fault. f may be
// called by several goroutines at once.
func (p *Plan) Watch(f func(op Op, stage Stage)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.watch = f
}

func (p *Plan) add(f *fault) {
	if f.left <= 0 {
		f.left = -1
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.faults = append(p.faults, f)
}

// Clear removes every fault that has not happened yet. Paused operations stay paused.
func (p *Plan) Clear() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.faults = nil
}

// at waits or fails as planned for an operation that reaches a stage. If several faults
// are due, the first that was planned happens.
func (p *Plan) at(op Op, stage Stage) error {
	p.mu.Lock()
	watch := p.watch
	p.mu.Unlock()
	if watch != nil {
		watch(op, stage)
	}
	f := p.due(op, stage)
	switch {
	case f == nil:
		return nil
	case f.pause != nil:
		f.pause.wait()
		return nil
	}
	return f.err
}

func (p *Plan) due(op Op, stage Stage) *fault {
	p.mu.Lock()
	defer p.mu.Unlock()
	var due *fault
	kept := p.faults[:0]
	for _, f := range p.faults {
		if f.stage != stage || (f.op != op && f.op != Any) {
			kept = append(kept, f)
			continue
		}
		if f.left > 0 {
			f.left--
		}
		comes := f.left <= 0 && due == nil
		if comes {
			due = f
		}
		if !comes || f.left < 0 {
			kept = append(kept, f)
		}
	}
	clear(p.faults[len(kept):])
	p.faults = kept
	return due
}

// around runs do, the operation op, with its faults.
func (p *Plan) around(ctx context.Context, op Op, do func(ctx context.Context) error) error {
	if err := p.at(op, Before); err != nil {
		return err
	}
	err := do(vfs.OnCommit(ctx, func(_ vfs.Effect, change func() (vfs.Effect, error)) (vfs.Effect, error) {
		if err := p.at(op, Commit); err != nil {
			return vfs.Effect{}, err
		}
		return change()
	}))
	if lost := p.at(op, After); lost != nil {
		return lost
	}
	return err
}

// Pause is an operation that waits, or will wait.
type Pause struct {
	reached, resume chan struct{}
	once            sync.Once
}

// Reached is closed when the operation has reached its stage and waits.
func (p *Pause) Reached() <-chan struct{} { return p.reached }

// Resume lets the operation continue. It may be called before the operation waits, and
// more than once.
func (p *Pause) Resume() { p.once.Do(func() { close(p.resume) }) }

func (p *Pause) wait() {
	close(p.reached)
	<-p.resume
}
