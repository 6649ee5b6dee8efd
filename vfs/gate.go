package vfs

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"capd/meter"
)

// Grace is how long Revoke and SetWritable(false) wait for changes that had
// begun before they answer busy.
const Grace = 5 * time.Second

// mode is a set of refusals; a set bit refuses. The bits above modeBits count
// generations: they change when a route below a gate, or below one that it was
// derived from, appears or goes, which tells views to look again at which gate
// they stand.
type mode uint32

const (
	noRead mode = 1 << iota
	noWrite
	revoked
	expired
	unmounted // the tree is in its namespace no more
	hidden    // a mount lies over it
	gone      // nothing holds the gate any more, and it is out of its tree

	modeBits  = noRead | noWrite | revoked | expired | unmounted | hidden | gone
	oneGen    = gone << 1
	deadModes = revoked | expired | unmounted
)

var (
	errUnmounted = Errorf(Stale, "what was mounted here was unmounted; look it up again")
	errHidden    = Errorf(Stale, "something was mounted over this; look it up again")
)

// refuse returns the error for an operation that needs what need forbids, or
// nil. Revoked and expired come before stale, stale before denied, denied before
// readOnly.
func (m mode) refuse(need mode) error {
	switch {
	case m&(need|deadModes|hidden|gone) == 0:
		return nil
	case m&revoked != 0:
		return Revoked
	case m&expired != 0:
		return Expired
	case m&unmounted != 0:
		return errUnmounted
	case m&hidden != 0:
		return errHidden
	case m&gone != 0:
		return errClosed
	case m&need&noRead != 0:
		return Errorf(Denied, "the host has stopped reading through this capability")
	}
	return ReadOnly
}

// Gate is the switch that a capability and all that is derived from it go
// through. Gates form a tree: what is set on one holds for all below it, and
// is pushed down when it is set, so that a check is one atomic load at any
// depth. The zero Gate is not usable; see [NewGate].
type Gate struct {
	tree   *gateTree
	origin string       // path, from the membrane's root, at which it begins
	name   string       // of a route: its last name
	outer  *Gate        // the gate that the view it was derived from stood at; nil for a root or a route
	depth  int          // how often it was derived
	meter  *meter.Meter // what is done through it counts there; nil: nowhere. See Revocable; inherited

	word atomic.Uint32 // the effective mode, and a generation

	// Under tree.mu.
	own        mode
	parents    []*Gate
	children   map[*Gate]struct{}
	routes     map[string]*Gate // by name, below origin
	controls   int              // of a route: those who control it
	parts      []*Gate          // of a composite: the gates it is the AND of
	of         *Gate            // of a composite: the gate in whose composites it is
	key        string           // of a composite: where there
	composites map[string]*Gate
	routed     routedGates
	watchers   map[*watcher]struct{}
	id         uint64
	refs       int
	quiet      bool // it is dead, and so is all below it, and no commit is under way there
	timer      *time.Timer
	deadline   time.Time // of timer

	walks sync.Mutex // held to look for commits below

	mu      sync.Mutex // held to enter a commit and to change word; inside, only the mu of gates above
	commits map[*commit]struct{}
	heirs   []*Gate // of a gate that is gone: where its commits are now
}

type gateTree struct {
	mu      sync.Mutex
	nextID  uint64
	commits atomic.Int64 // under way at any gate
}

// NewGate returns the root of a tree of gates: readable, writable, for
// [Guarded]. Release it when nobody will control it any more.
func NewGate() *Gate {
	t := &gateTree{}
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.newGate("", nil)
}

// newGate makes a gate below parents, with one reference. t.mu is held.
func (t *gateTree) newGate(origin string, parents []*Gate) *Gate {
	g := t.linkGate(origin, parents)
	g.acquire()
	return g
}

// linkGate makes a gate below parents that nothing refers to yet.
func (t *gateTree) linkGate(origin string, parents []*Gate) *Gate {
	t.nextID++
	g := &Gate{tree: t, origin: origin, parents: parents, id: t.nextID}
	for _, p := range parents {
		if p.children == nil {
			p.children = map[*Gate]struct{}{}
		}
		p.children[g] = struct{}{}
	}
	g.refresh()
	return g
}

// refresh recomputes the effective modes of g and everything below, and returns
// the gates that died of it. tree.mu is held.
func (g *Gate) refresh() (dead []*Gate) {
	queue := []*Gate{g}
	for len(queue) > 0 {
		g := queue[len(queue)-1]
		queue = queue[:len(queue)-1]
		m := g.own
		for _, p := range g.parents {
			m |= mode(p.word.Load()) & modeBits
		}
		old := mode(g.word.Load())
		now := m | old&^modeBits
		if now == old {
			continue
		}
		g.setWord(now)
		if now&deadModes != 0 && old&deadModes == 0 {
			dead = append(dead, g)
		}
		for c := range g.children {
			queue = append(queue, c)
		}
	}
	return dead
}

func (g *Gate) setWord(m mode) {
	g.mu.Lock()
	g.word.Store(uint32(m))
	g.mu.Unlock()
}

// below returns g and everything below it, each once. tree.mu is held.
func (g *Gate) below() []*Gate { return g.belowBut(func(*Gate) bool { return false }) }

// belowBut is below without the gates for which but holds and what is below them.
func (g *Gate) belowBut(but func(*Gate) bool) (all []*Gate) {
	if !but(g) {
		all = append(all, g)
	}
	seen := map[*Gate]bool{g: true}
	for i := 0; i < len(all); i++ {
		for c := range all[i].children {
			if !seen[c] && !but(c) {
				seen[c] = true
				all = append(all, c)
			}
		}
	}
	return all
}

// MaxDerived is how many gates may hang below one another.
const MaxDerived = 4096

// derive makes a gate of its own for a view of base gate g that stands at path.
// It answers limit.
func (g *Gate) derive(path string, m *meter.Meter) (*Gate, error) {
	g.tree.mu.Lock()
	defer g.tree.mu.Unlock()
	if g.depth >= MaxDerived {
		return nil, Errorf(Limit, "this was made revocable %d times over; begin from an earlier one", g.depth)
	}
	at := g.at(path)
	d := g.tree.newGate(path, []*Gate{at})
	d.outer, d.depth, d.meter = at, g.depth+1, m
	return d, nil
}

func (g *Gate) retain() {
	g.tree.mu.Lock()
	g.acquire()
	g.tree.mu.Unlock()
}

// Release gives up one reference. A gate that nothing holds leaves the tree,
// unless it is a route that still forbids something.
func (g *Gate) Release() {
	g.tree.mu.Lock()
	defer g.tree.mu.Unlock()
	g.release()
}

// acquire and release count references. A gate that is referred to holds its
// parents; one that is not holds nothing, and stays only as long as it is of
// use to its parents. tree.mu is held.
func (g *Gate) acquire() {
	if g.refs++; g.refs == 1 {
		for _, p := range g.parents {
			p.acquire()
		}
	}
}

func (g *Gate) release() {
	if g.refs--; g.refs > 0 {
		return
	}
	parents := g.parents
	if !g.locks() && g.parts == nil {
		g.unlink()
	}
	for _, p := range parents {
		p.release()
	}
}

// locks reports whether g is a route that forbids something, will, or leads to
// one that does, so that it stays when its control is released.
func (g *Gate) locks() bool {
	return g.name != "" && (g.own != 0 || g.timer != nil || len(g.routes) > 0)
}

// unlink takes g, to which nothing refers, out of the tree, with the locks and
// composites below it. What was bound by it looks again.
func (g *Gate) unlink() {
	parents := g.parents
	orphans := g.cut(nil)
	if g.name != "" {
		for _, p := range parents {
			delete(p.routes, g.name)
			p.rerouted()
		}
	}
	for _, w := range orphans {
		w.home()
	}
}

// cut is unlink for g and what is below it, and returns those who watched.
func (g *Gate) cut(orphans []*watcher) []*watcher {
	if g.timer != nil {
		g.timer.Stop()
	}
	for _, p := range g.parents {
		delete(p.children, g)
	}
	if g.of != nil {
		delete(g.of.composites, g.key)
	}
	g.mu.Lock()
	g.word.Store(g.word.Load() | uint32(gone))
	g.heirs = g.parents
	for _, p := range g.parents {
		p.adopt(g.commits)
	}
	g.mu.Unlock()
	g.parents = nil
	for w := range g.watchers {
		orphans = append(orphans, w)
	}
	g.watchers = nil
	for c := range g.children {
		orphans = c.cut(orphans)
	}
	return orphans
}

// set changes g's own mode and tells those who watch what has died.
func (g *Gate) set(add, drop mode) {
	g.tree.mu.Lock()
	g.own = g.own&^drop | add
	type told struct {
		w   *watcher
		err error
	}
	var tell []told
	for _, d := range g.refresh() {
		err := mode(d.word.Load()).refuse(0)
		for w := range d.watchers {
			tell = append(tell, told{w, err})
		}
		d.watchers = nil
	}
	g.tree.mu.Unlock()
	for _, t := range tell {
		t.w.f(t.err)
	}
}

// Revoke takes the capability back for good, with all that was ever derived
// from it, and returns when no change that went through it is under way any
// more: afterwards nothing changes. Doing it again is no error. When a change
// that had begun does not end within Grace it answers busy and lists what may
// still land; the gate is shut all the same, and asking again waits again.
func (g *Gate) Revoke() error {
	g.set(revoked, 0)
	return g.drain(context.Background())
}

// Drain waits as Revoke does and shuts nothing: for a gate that is dead already, of
// which Revoke would say that it was revoked where it has expired.
func (g *Gate) Drain() error { return g.drain(context.Background()) }

// SetWritable locks (false) or unlocks the gate for changes. Locking waits as
// Revoke does. Unlocking gives back nothing that an attenuation took.
func (g *Gate) SetWritable(on bool) error {
	if on {
		g.set(0, noWrite)
		return nil
	}
	g.set(noWrite, 0)
	return g.drain(context.Background())
}

// SetReadable allows or forbids looking through the gate. It does not wait.
func (g *Gate) SetReadable(on bool) {
	if on {
		g.set(0, noRead)
	} else {
		g.set(noRead, 0)
	}
}

// ExpireAt makes the gate expire at t, unless it was to expire before.
func (g *Gate) ExpireAt(t time.Time) {
	g.tree.mu.Lock()
	defer g.tree.mu.Unlock()
	if g.timer != nil {
		if !t.Before(g.deadline) || !g.timer.Stop() {
			return
		}
	}
	g.deadline = t
	g.timer = time.AfterFunc(time.Until(t), func() { g.set(expired, 0) })
}

// Writable reports what SetWritable set here, and whether changes are possible
// now, with everything above.
func (g *Gate) Writable() (own, effective bool) { return g.allows(noWrite) }

// Readable is as Writable.
func (g *Gate) Readable() (own, effective bool) { return g.allows(noRead) }

// Locked reports whether changes are refused now, by this gate or one above it.
// Like Revoked it waits for nothing.
func (g *Gate) Locked() bool { return mode(g.word.Load())&noWrite != 0 }

// Ended returns what every call through the gate answers once it, or one above it, was
// revoked or has expired; nil before.
func (g *Gate) Ended() error { return (mode(g.word.Load()) & deadModes).refuse(0) }

// Revoked reports whether the gate, or one above it, was revoked or expired.
func (g *Gate) Revoked() bool { return mode(g.word.Load())&deadModes != 0 }

func (g *Gate) allows(m mode) (own, effective bool) {
	g.tree.mu.Lock()
	defer g.tree.mu.Unlock()
	return g.own&m == 0, mode(g.word.Load())&(m|deadModes) == 0
}
