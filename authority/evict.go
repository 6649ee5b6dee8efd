package authority

import (
	"cmp"
	"slices"
	"sync"

	"capd/database"
	"capd/vfs"
	"capd/vfs/membrane"
)

// MaxResident is about how many grants stay resident although nobody holds anything of them. Of more than that the host lets
// those go that were not used for the longest time. Their locators make them resident again.
const MaxResident = 4096

// evictor lets resident grants go.
type evictor struct {
	most   int          // MaxResident
	borrow sync.RWMutex // held to take a reference to what a grant holds, after which it stays; mu is taken inside it

	// Host.mu guards these.
	running bool
	after   int // how many grants must be resident before it looks again
}

// errEvicted says that a grant was let go after it had been found. Who finds it again makes it resident again.
var errEvicted = vfs.Errorf(vfs.Busy, "this grant was let go just now; try again")

// crowded begins to let grants go if there are too many. The caller holds h.mu.
func (h *Host) crowded() {
	e := &h.evictor
	if n := h.residents.byID.Len(); n > max(e.most, e.after) && !e.running && !h.closed {
		e.running = true
		h.burials.Go(h.evict)
	}
}

// evict lets grants go until a quarter of the room is free, or all that are left are held. While it runs no setting of a grant
// changes, and none becomes resident.
func (h *Host) evict() {
	h.settings.Lock()
	defer h.settings.Unlock()
	for _, closing := range h.idle() {
		closing()
	}
}

// idle takes grants that nobody holds out of the residents, and returns what closes them.
func (h *Host) idle() (closing []func()) {
	e := &h.evictor
	e.borrow.Lock()
	defer e.borrow.Unlock()
	var all []*grant
	h.mu.Lock()
	most := h.residents.byID.Len() - e.most*3/4
	h.residents.byID.Scan(func(_ int64, g *grant) bool {
		if g.node != nil && h.noted(g) {
			all = append(all, g)
		}
		return true
	})
	h.mu.Unlock()
	all = slices.DeleteFunc(all, (*grant).held)
	h.mu.Lock()
	defer h.mu.Unlock()
	slices.SortFunc(all, func(a, b *grant) int { return cmp.Compare(max(a.seen, a.loaded), max(b.seen, b.loaded)) })
	for _, g := range all[:max(0, min(most, len(all)))] {
		if g.node == nil { // it has ended meanwhile
			continue
		}
		node, stop := g.node, g.unwatch
		g.node, g.unwatch, g.buried, g.evicted = nil, nil, true, true
		h.residents.remove(g)
		h.leaves(g)
		closing = append(closing, func() {
			if stop != nil {
				stop()
			}
			node.Close()
			g.control.Release()
			g.giveBack()
			g.meter.End()
		})
	}
	e.running, e.after = false, h.residents.byID.Len()+e.most/8
	return closing
}

// held reports whether anybody but the host has something of g, or something would be lost with it: that it ends with a gate
// between it and what it was shared from.
func (g *grant) held() bool {
	return g.between || g.control.References() > g.own || g.end() != nil
}

// noted reports whether it is kept when g was last used, if that matters. Otherwise it will be. The caller holds h.mu.
func (h *Host) noted(g *grant) bool {
	if g.unused == 0 || g.seen <= g.kept {
		return true
	}
	seen := g.seen
	g.kept = seen
	h.db.Later(func(tx *database.Tx) error {
		_, err := tx.Exec("UPDATE grants SET used=max(COALESCE(used, 0), ?) WHERE id=?", seen, g.id)
		return err
	})
	return false
}

// control returns another reference to g's control, or nil if g was let go.
func (h *Host) control(g *grant) *membrane.Control {
	h.evictor.borrow.RLock()
	defer h.evictor.borrow.RUnlock()
	h.mu.Lock()
	evicted := g.evicted
	h.mu.Unlock()
	if evicted {
		return nil
	}
	return g.control.Dup()
}
