package membrane

import (
	"sync"
	"sync/atomic"

	"capd/meter"
	"capd/vfs"
)

// Gate switches a capability, and everything derived from it, on or off. Gates form a
// tree. A setting of one gate holds for all gates below it, and is pushed down when it
// is set, so a check is one atomic load at any depth. The zero Gate is not usable; see
// [NewGate].
type Gate struct {
	tree   *gateTree
	origin string       // path from the membrane's root
	name   string       // of a route: its last name
	outer  *Gate        // gate of the view it was derived from; nil for a root or a route
	depth  int          // how many times it was derived
	meter  *meter.Meter // counts what is done through the gate; nil for none. See Revocable; inherited

	word  atomic.Uint64 // the effective mode and a generation
	until atomic.Int64  // when it, or the first gate above it, expires; 0: never. Written before word

	// Guarded by tree.mu.
	own        mode
	parents    []*Gate
	children   map[*Gate]struct{}
	routes     map[string]*Gate // by name, below origin
	controls   int              // of a route: number of controls
	parts      []*Gate          // of a composite: the gates whose AND it is
	of         *Gate            // of a composite: the gate that has it in composites
	key        string           // of a composite: its key there
	composites map[string]*Gate
	routed     routedGates
	watchers   map[*watcher]struct{}
	id         uint64
	refs       int
	ended      func() // runs, by itself, when there are no references any more; nil for nothing
	quiet      bool   // dead, like everything below, and no commit is under way there
	expires    int64  // when it expires by itself; 0: never
	kept       int64  // the id under which tree.settings keeps what is set here; 0: none

	walks sync.Mutex // held to look for commits below

	mu       sync.Mutex // held to enter a commit and to change word; while it is held only the mu of gates above may be taken
	commits  map[*commit]struct{}
	adopters []*Gate // of a gate that left the tree: the gates that adopted its commits
}

type gateTree struct {
	clock   *Clock
	mu      sync.Mutex
	nextID  uint64
	commits atomic.Int64 // under way at any gate

	settings Settings   // nil: nothing is kept
	keeping  sync.Mutex // held to set something at a gate and keep it, so that both happen in one order
}

// NewGate returns the root of a new tree of gates, readable and writable, for
// [Guarded]. Release it when nobody will control it any more.
func NewGate() *Gate { return NewGateOn(&Clock{}) }

// NewGateOn is NewGate with the clock by which the gates of the tree expire.
func NewGateOn(c *Clock) *Gate {
	t := &gateTree{clock: c}
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.newGate("", nil)
}

// newGate makes a gate below parents, with one reference. Needs t.mu.
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

// refresh recomputes the effective modes of g and everything below. It returns the
// gates that died. Needs tree.mu.
func (g *Gate) refresh() (dead []*Gate) {
	queue := []*Gate{g}
	for len(queue) > 0 {
		g := queue[len(queue)-1]
		queue = queue[:len(queue)-1]
		m, until := g.own, g.expires
		for _, p := range g.parents {
			m |= mode(p.word.Load()) & modeBits
			until = earlier(until, p.until.Load())
		}
		if until != 0 {
			m |= timed
		}
		old := mode(g.word.Load())
		now := m | old&^modeBits
		if now == old && until == g.until.Load() {
			continue
		}
		g.until.Store(until)
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
	g.word.Store(uint64(m))
	g.mu.Unlock()
}

// below returns g and everything below it, each once. Needs tree.mu.
func (g *Gate) below() []*Gate { return g.belowBut(func(*Gate) bool { return false }) }

// belowBut is below, without the gates for which but returns true and without what is
// below those.
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

// above returns g and everything above it, each once. Needs tree.mu.
func (g *Gate) above() []*Gate {
	seen, all := map[*Gate]bool{g: true}, []*Gate{g}
	for i := 0; i < len(all); i++ {
		for _, p := range all[i].parents {
			if !seen[p] {
				seen[p] = true
				all = append(all, p)
			}
		}
	}
	return all
}

// maxDerived is how many gates may be derived one from another.
const maxDerived = 4096

// derive makes a new gate for a view at path whose base gate is g. It answers limit.
func (g *Gate) derive(path string, m *meter.Meter) (*Gate, error) {
	g.tree.mu.Lock()
	defer g.tree.mu.Unlock()
	if g.depth >= maxDerived {
		return nil, vfs.Errorf(vfs.Limit, "this was made revocable %d times in a chain; begin from an earlier one", g.depth)
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

// Release gives up one reference. A gate without references leaves the tree, unless it
// is a route that still forbids something.
func (g *Gate) Release() {
	g.tree.mu.Lock()
	defer g.tree.mu.Unlock()
	g.release()
}

// References returns how many references there are to the gate: controls, views through it, and gates derived from it
// that are referred to.
func (g *Gate) References() int {
	g.tree.mu.Lock()
	defer g.tree.mu.Unlock()
	return g.refs
}

// acquire and release count references. A gate with references holds its parents. A
// gate without references holds nothing, and stays only while its parents need it. Both
// need tree.mu.
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
	if g.ended != nil {
		go g.ended()
		g.ended = nil
	}
	for _, p := range parents {
		p.release()
	}
}

// locks reports whether g is a route that forbids something now or at its deadline, or
// leads to such a route. It then stays when its control is released.
func (g *Gate) locks() bool {
	return g.name != "" && (g.own != 0 || g.expires != 0 || len(g.routes) > 0)
}

// unlink removes g, which has no references, from the tree, with the routes and
// composites below it. Watchers bound by it look up their gate again.
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

// cut is unlink for g and what is below it. It returns the watchers that were there.
func (g *Gate) cut(orphans []*watcher) []*watcher {
	for _, p := range g.parents {
		delete(p.children, g)
	}
	if g.of != nil {
		delete(g.of.composites, g.key)
	}
	g.mu.Lock()
	g.word.Store(g.word.Load() | uint64(gone))
	g.adopters = g.parents
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
