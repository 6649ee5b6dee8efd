package vfs

import (
	"cmp"
	"sync"
)

// Allowance bounds what a grant may use. A zero field is no bound.
type Allowance struct {
	Bytes int64 // by which stored content may grow
	Nodes int64 // by which the number of stored nodes may grow
	Open  int64 // nodes held open at once, and gates; one at a long path counts for several

	// Streams is how many contents may be held open and whole-file writes be
	// under way at once: each costs the host a descriptor.
	Streams int64

	// Of says whose allowance it is, where a refusal names it; "" is "the grant's
	// allowance".
	Of string
}

// Usage is what is used of an allowance.
type Usage struct{ Bytes, Nodes, Open, Streams int64 }

// Ledger accounts for one root grant and all that is derived from it, on all
// its connections. What a change frees is credited, down to zero: nobody earns
// an allowance by removing what was there before. Safe for concurrent use.
//
// Guard{Ledger: l} keeps to it: beyond it a change answers quota, and one node
// open more answers limit.
type Ledger struct {
	allowed  Allowance
	mu       sync.Mutex
	used     Usage
	unused   Effect // credited below zero, which counts for nothing but a revert
	reserved Effect // by changes under way
	staged   int64  // bytes of whole-file writes under way, that are not in place
}

// NewLedger returns an empty ledger.
func NewLedger(a Allowance) *Ledger { return &Ledger{allowed: a} }

// Usage returns what is used now, and reserved by changes under way.
func (l *Ledger) Usage() Usage {
	l.mu.Lock()
	defer l.mu.Unlock()
	u := l.used
	u.Bytes += l.reserved.Bytes
	u.Nodes += l.reserved.Nodes
	return u
}

// pathShare is how much of its path a node that is open has for nothing: it
// counts for one more with every so many bytes beyond.
const pathShare = 256

// openCost is what a node at path counts for while it is open: several copies of
// the path are kept with it.
func openCost(path string) int64 {
	return 1 + int64(max(len(path)-1, 0)/pathShare)
}

func (l *Ledger) open(path string) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	cost := openCost(path)
	if l.allowed.Open > 0 && l.used.Open+cost > l.allowed.Open {
		return Errorf(Limit, "this grant holds as much as %d open nodes already; release some", l.used.Open)
	}
	l.used.Open += cost
	return nil
}

func (l *Ledger) close(path string) {
	l.mu.Lock()
	l.used.Open -= openCost(path)
	l.mu.Unlock()
}

func (l *Ledger) stream() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.allowed.Streams > 0 && l.used.Streams >= l.allowed.Streams {
		return Errorf(Limit, "this grant has %d reads and whole-file writes under way already; let some end", l.used.Streams)
	}
	l.used.Streams++
	return nil
}

func (l *Ledger) unstream() {
	l.mu.Lock()
	l.used.Streams--
	l.mu.Unlock()
}

// stage counts n bytes more that are staged, by a write in place of there bytes.
// All that is staged at once may come to all of the allowance, however much of it
// is used: what a write has at its end is another matter.
func (l *Ledger) stage(n, there int64) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.allowed.Bytes > 0 && l.staged+n-there > l.allowed.Bytes {
		return Errorf(Busy, "the whole-file writes that are under way come to more than %s; let some end", l.name())
	}
	l.staged += n
	return nil
}

func (l *Ledger) unstage(n int64) {
	l.mu.Lock()
	l.staged -= n
	l.mu.Unlock()
}

// commits returns a Committer that reserves what a change may grow by and
// settles what it came to. account, if any, says what a change is here, given
// what it is to the store.
func (l *Ledger) commits(account func(Effect) Effect) Committer {
	if account == nil {
		account = func(e Effect) Effect { return e }
	}
	return func(e Effect, change func() (Effect, error)) (Effect, error) {
		r, err := l.reserve(account(e))
		if err != nil {
			return Effect{}, err
		}
		got, err := change()
		here := got
		if err == nil {
			here = account(got)
		}
		l.settle(r, here)
		return got, err
	}
}

func (l *Ledger) reserve(e Effect) (Effect, error) {
	r := Effect{max(e.Bytes, 0), max(e.Nodes, 0)}
	l.mu.Lock()
	defer l.mu.Unlock()
	left := Effect{l.allowed.Bytes - l.used.Bytes - l.reserved.Bytes, l.allowed.Nodes - l.used.Nodes - l.reserved.Nodes}
	if l.allowed.Bytes > 0 && r.Bytes > 0 && r.Bytes > left.Bytes || l.allowed.Nodes > 0 && r.Nodes > 0 && r.Nodes > left.Nodes {
		return Effect{}, Errorf(Quota, "%s is used up (this needs %d bytes and %d nodes; left are %d and %d); remove something or ask for more",
			l.name(), r.Bytes, r.Nodes, max(left.Bytes, 0), max(left.Nodes, 0))
	}
	l.reserved.Bytes += r.Bytes
	l.reserved.Nodes += r.Nodes
	return r, nil
}

func (l *Ledger) settle(reserved, got Effect) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.reserved.Bytes -= reserved.Bytes
	l.reserved.Nodes -= reserved.Nodes
	l.used.Bytes += got.Bytes
	l.used.Nodes += got.Nodes
	l.level()
}

// level moves what was credited below zero to unused. l.mu is held.
func (l *Ledger) level() {
	l.unused.Bytes += max(-l.used.Bytes, 0)
	l.unused.Nodes += max(-l.used.Nodes, 0)
	l.used.Bytes, l.used.Nodes = max(l.used.Bytes, 0), max(l.used.Nodes, 0)
}

// Revert accounts for a revert by the host, which grew the tree by e. What is used
// afterwards is by how much the tree has grown since the ledger began, if it has: what
// counted for nothing when it went counts for nothing when it comes back.
func (l *Ledger) Revert(e Effect) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.used.Bytes += e.Bytes - l.unused.Bytes
	l.used.Nodes += e.Nodes - l.unused.Nodes
	l.unused = Effect{}
	l.level()
}

// name is how a refusal calls the allowance.
func (l *Ledger) name() string { return cmp.Or(l.allowed.Of, "the grant's allowance") }
