package authority

import (
	"cmp"
	"errors"
	"sync"

	"capd/vfs"
	"capd/vfs/membrane"
)

// mourn watches g, whose node is node. When g ends, or its tree is unmounted, it cannot be restored any more as it
// is, and is buried. h.mu must not be held, since a guest may hold the locks of the gates.
func (h *Host) mourn(g *grant, node vfs.Node) {
	stop := membrane.OnRevoke(node, func(error) {
		closing := h.take(g)
		g.giveBack()
		h.burials.Go(func() { h.bury(g, closing) })
	})
	h.mu.Lock()
	ended := g.node == nil
	if !ended {
		g.unwatch = stop
	}
	h.mu.Unlock()
	if ended {
		stop()
	}
}

// take takes from g what restores it, and returns what closes that.
func (h *Host) take(g *grant) (closing func()) {
	h.mu.Lock()
	defer h.mu.Unlock()
	node, stop := g.node, g.unwatch
	g.node, g.unwatch = nil, nil
	return func() {
		if node != nil {
			node.Close()
		}
		if stop != nil {
			stop()
		}
	}
}

// bury releases what a grant holds that was revoked, has expired, or whose tree was
// unmounted. It waits until no change through the grant is under way. Afterwards only
// the row is left. If a change is stuck, the rest remains until somebody revokes again.
func (h *Host) bury(g *grant, closing func()) {
	err := g.control.Drain()
	closing()
	if err != nil {
		return
	}
	h.mu.Lock()
	last := !g.buried
	g.buried = true
	h.residents.remove(g)
	if last && g.end() == nil {
		h.leaves(g)
	}
	h.mu.Unlock()
	if last {
		g.control.Release()
		g.meter.End()
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

// Decided waits until no change of a guest is under way that rules have decided which were exchanged since. It answers busy for
// changes that do not end; see [membrane.Gate.Decided].
func (h *Host) Decided() error {
	all := h.tops()
	errs := make([]error, len(all))
	var ends sync.WaitGroup
	for i, g := range all {
		ends.Go(func() { errs[i] = g.control.Decided() })
	}
	ends.Wait()
	return cmp.Or(errs...)
}

// tops returns the resident grants that are no shares.
func (h *Host) tops() (all []*grant) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.residents.byID.Scan(func(_ int64, g *grant) bool {
		if g.parent == nil {
			all = append(all, g)
		}
		return true
	})
	return all
}

// Close ends every use of every grant and closes the tree. The grants are not revoked. Afterwards Grant answers stale.
func (h *Host) Close() error {
	var all []*grant
	h.mu.Lock()
	h.closed = true
	h.residents.byID.Scan(func(_ int64, g *grant) bool {
		all = append(all, g)
		return true
	})
	h.mu.Unlock()
	errs := make([]error, len(all)+3)
	errs[len(all)+2] = h.stopTicking()
	var ends sync.WaitGroup
	for i, g := range all {
		ends.Go(func() { errs[i] = g.control.End() })
	}
	ends.Wait()
	h.burials.Wait()
	h.feed.Close()
	h.spans.closeAll()
	h.closeDigests()
	h.closeDenials()
	h.closeReads()
	errs[len(all)] = h.root.Close()
	if h.mine {
		errs[len(all)+1] = h.db.Close()
	}
	return errors.Join(errs...)
}
