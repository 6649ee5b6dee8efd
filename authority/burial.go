package authority

import (
	"errors"
	"strings"
	"sync"

	"capd/meter"
	"capd/vfs"
	"capd/vfs/membrane"
)

// mourn watches g, whose node is node. When g ends, it is counted as ended and buried.
// h.mu must not be held, since a guest may hold the locks of the gates.
func (h *Host) mourn(g *grant, node vfs.Node) {
	stop := membrane.OnRevoke(node, func(error) {
		h.end(g)
		h.burials.Go(func() { h.bury(g) })
	})
	h.mu.Lock()
	buried := g.node == nil
	if !buried {
		g.unwatch = stop
	}
	h.mu.Unlock()
	if buried {
		stop()
	}
}

// bury releases what a grant holds that was revoked, has expired, or whose tree was
// unmounted. It waits until no change through the grant is under way. Afterwards only
// what Grants lists and what the locator answers is left. If a change is stuck, the rest
// remains until somebody revokes again.
func (h *Host) bury(g *grant) {
	ctl := g.control.Load()
	if ctl == nil {
		return
	}
	err := ctl.Drain()
	h.mu.Lock()
	node, stop := g.node, g.unwatch
	g.node = nil
	g.unwatch = nil
	var m *meter.Meter
	// Unless it has ended, only the tree was unmounted, and the grant can still be revoked. Another bury may have
	// come first: who sees that control is nil reads ended without a lock.
	if err == nil && ctl.Ended() != nil && g.control.Load() != nil {
		g.Path = brief(g.Path)
		g.ended = ctl.Ended()
		g.control.Store(nil)
		m = h.registry.unmeter(g)
	}
	h.mu.Unlock()
	if m != nil {
		m.End()
	}
	if node != nil {
		node.Close()
	}
	if stop != nil {
		stop()
	}
	if err == nil {
		ctl.Release()
	}
}

// burials counts the burials under way. Unlike with a [sync.WaitGroup], one may begin while Close waits: somebody
// else may revoke at the same time.
type burials struct {
	mu   sync.Mutex
	done sync.Cond // its L is mu
	n    int
}

// Go runs bury in a goroutine of its own.
func (b *burials) Go(bury func()) {
	b.mu.Lock()
	b.n++
	b.mu.Unlock()
	go func() {
		defer func() {
			b.mu.Lock()
			defer b.mu.Unlock()
			b.n--
			b.done.Broadcast()
		}()
		bury()
	}()
}

// Wait waits until none is under way.
func (b *burials) Wait() {
	b.mu.Lock()
	defer b.mu.Unlock()
	for b.n > 0 {
		b.done.Wait()
	}
}

// maxBrief is the most bytes remembered of the path of an ended grant.
const maxBrief = 128

// brief returns a copy of path, cut after maxBrief bytes. Since it is a copy, it does not
// keep a longer string alive.
func brief(path string) string {
	if len(path) > maxBrief {
		return path[:maxBrief] + "…"
	}
	return strings.Clone(path)
}

// revoke revokes g and waits as [membrane.Gate.Revoke] does.
func (h *Host) revoke(g *grant) error {
	ctl := g.control.Load()
	if ctl == nil {
		return nil
	}
	err := ctl.Revoke()
	if err == nil {
		h.burials.Go(func() { h.bury(g) }) // an earlier bury may have left something because of a stuck change
	}
	return err
}

// Close revokes every grant and closes the tree. Afterwards Grant answers stale.
func (h *Host) Close() error {
	h.mu.Lock()
	h.closed = true
	h.mu.Unlock()
	var gs []*grant
	h.each(0, func(g *grant) bool {
		gs = append(gs, g)
		return true
	})
	err := all(gs, h.revoke)
	h.burials.Wait()
	return errors.Join(err, h.root.Close())
}
