package authority

import (
	"errors"
	"strings"

	"capd/meter"
	"capd/vfs"
)

// mourn watches g, whose node is node. When g ends, it is counted as ended and buried.
// h.mu must not be held, since a guest may hold the locks of the gates.
func (h *Host) mourn(g *grant, node vfs.Node) {
	stop := vfs.OnRevoke(node, func(error) {
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
	if err == nil && ctl.Ended() != nil { // otherwise only the tree was unmounted, and the grant can still be revoked
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

// revoke revokes g and waits as [vfs.Gate.Revoke] does.
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

// Close revokes every grant and closes the tree.
func (h *Host) Close() error {
	var gs []*grant
	h.each(0, func(g *grant) bool {
		gs = append(gs, g)
		return true
	})
	err := all(gs, h.revoke)
	h.burials.Wait()
	return errors.Join(err, h.root.Close())
}
