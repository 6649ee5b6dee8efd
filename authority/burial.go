package authority

import (
	"errors"
	"strings"

	"capd/meter"
	"capd/vfs"
)

// mourn has g, whose node is node, counted as ended when it is, and buried. h.mu is
// not held, since a guest may be busy with the gates.
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

// bury lets go of what a grant that was revoked, or has expired, or whose tree was
// unmounted, holds, once no change goes through it any more. What remains is what
// Grants tells of it and what its locator answers. When a change is stuck the rest is
// left to whoever revokes again.
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
	if err == nil && ctl.Ended() != nil { // a grant whose tree was unmounted can be revoked still
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

// maxBrief is how many bytes are remembered of the path of a grant that is gone.
const maxBrief = 128

// brief returns a copy of path, cut after maxBrief bytes. The copy keeps alive no
// longer string that path is a part of.
func brief(path string) string {
	if len(path) > maxBrief {
		return path[:maxBrief] + "…"
	}
	return strings.Clone(path)
}

// revoke revokes g, and waits as [vfs.Gate.Revoke] does.
func (h *Host) revoke(g *grant) error {
	ctl := g.control.Load()
	if ctl == nil {
		return nil
	}
	err := ctl.Revoke()
	if err == nil {
		h.burials.Go(func() { h.bury(g) }) // a change that was stuck may have left something
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
