package membrane

import (
	"context"
	"time"
)

// Grace is how long Revoke and SetWritable(false) wait for changes that had begun.
// After that they answer busy.
const Grace = 5 * time.Second

// set changes g's own mode and notifies the watchers of gates that died.
func (g *Gate) set(add, drop mode) { g.setAnd(add, drop, func() {}) }

// setAnd is set, and calls also while nothing else in the tree changes.
func (g *Gate) setAnd(add, drop mode, also func()) {
	g.tree.mu.Lock()
	also()
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

// Revoke takes the capability back for good, with everything ever derived from it. It
// returns when no change that went through it is under way any more; after that nothing
// changes. Revoking again is no error.
//
// When a change that had begun does not end within Grace, Revoke answers busy and lists
// the changes that may still take effect. The gate is shut all the same. Calling Revoke
// again waits again.
func (g *Gate) Revoke() error {
	g.set(revoked, 0)
	return g.drain(context.Background())
}

// Unmount is Revoke for a tree that is unmounted: its nodes answer stale. It also ends
// with ctx, and then answers ctx's error.
func (g *Gate) Unmount(ctx context.Context) error {
	g.set(unmounted, 0)
	return g.drain(ctx)
}

// End is Revoke for a host that ends: calls answer stale, and nothing is taken back for good.
func (g *Gate) End() error {
	g.set(ending, 0)
	return g.drain(context.Background())
}

// Drain waits as Revoke does, but shuts nothing. Use it for a gate that has expired:
// Revoke would mark that gate as revoked.
func (g *Gate) Drain() error { return g.drain(context.Background()) }

// Decided waits as Revoke does for the changes that had begun when a [Policy] was exchanged. Those that begin later are
// decided by the new rules.
func (g *Gate) Decided() error { return g.drainAs(context.Background(), "the rules hold") }

// SetWritable unlocks the gate for changes, or locks it (false). Locking waits as
// Revoke does. Unlocking does not return rights that an attenuation removed.
func (g *Gate) SetWritable(on bool) error {
	if on {
		g.set(0, changes)
		return nil
	}
	g.set(changes, 0)
	return g.drain(context.Background())
}

// SetReadable allows or forbids reads through the gate. It does not wait.
func (g *Gate) SetReadable(on bool) {
	if on {
		g.set(0, looks)
	} else {
		g.set(looks, 0)
	}
}

// Writable reports what SetWritable set here (own), and whether changes are possible
// now, all gates above included (effective).
func (g *Gate) Writable() (own, effective bool) { return g.allows(changes) }

// Readable is [Gate.Writable] for reads.
func (g *Gate) Readable() (own, effective bool) { return g.allows(looks) }

// Locked reports whether this gate or one above it refuses changes now. It does not
// wait.
func (g *Gate) Locked() bool { return mode(g.word.Load())&changes != 0 }

// Ended returns the error that every call answers once the gate, or one above it, was
// revoked or has expired. It returns nil before that.
func (g *Gate) Ended() error { return (g.mode() & deadModes).refuse(0) }

// Revoked reports whether the gate, or one above it, was revoked or has expired.
func (g *Gate) Revoked() bool { return g.mode()&deadModes != 0 }

func (g *Gate) allows(m mode) (own, effective bool) {
	g.tree.mu.Lock()
	defer g.tree.mu.Unlock()
	return g.own&m == 0, g.mode()&(m|deadModes) == 0
}
