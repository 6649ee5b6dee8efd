package authority

import (
	"maps"
	"slices"
	"strconv"

	"github.com/tidwall/btree"

	"capd/meter"
	"capd/vfs"
)

// registry indexes the grants by secret, by id and by guest. The caller holds the host's
// lock. With more grants each call takes at most logarithmically longer. The exception is
// ofGuest, which returns the grants of one guest.
type registry struct {
	byDigest map[digest]*grant
	byOrder  btree.Map[uint64, *grant]
	byMeter  map[*meter.Meter]*grant // grants that are not buried
	guests   map[string]*guest
	lastID   uint64
	gone     []*grant // ended and remembered root grants, the first to end first
}

// guest is a name and the grants of that name.
type guest struct {
	grants map[*grant]struct{}
	shared int // how many shares were ever made from these grants
}

func newRegistry() registry {
	return registry{byDigest: map[digest]*grant{}, byMeter: map[*meter.Meter]*grant{}, guests: map[string]*guest{}}
}

// add indexes g, which has its digest, under a new id and its guest's name.
func (r *registry) add(g *grant) {
	r.lastID++
	g.order = r.lastID
	g.ID = "g" + strconv.FormatUint(g.order, 10)
	r.byDigest[g.digest] = g
	r.byOrder.Set(g.order, g)
	r.byMeter[g.meter] = g
	holder := r.guests[g.Guest]
	if holder == nil {
		holder = &guest{grants: map[*grant]struct{}{}}
		r.guests[g.Guest] = holder
	}
	holder.grants[g] = struct{}{}
	g.holder = holder
}

// unmeter removes g's meter from g and returns it.
func (r *registry) unmeter(g *grant) *meter.Meter {
	m := g.meter
	delete(r.byMeter, m)
	g.meter = nil
	return m
}

// remove forgets g.
func (r *registry) remove(g *grant) {
	delete(r.byDigest, g.digest)
	r.byOrder.Delete(g.order)
	delete(g.holder.grants, g)
	if len(g.holder.grants) == 0 && r.guests[g.Guest] == g.holder {
		delete(r.guests, g.Guest)
	}
}

// end notes that g has ended. Of ended grants, MaxGone root grants are remembered, and
// MaxGone shares of each root grant, so that a guest makes the host forget only its own
// shares. When a root grant is forgotten its shares are, too: end returns those that are
// left to remove.
func (r *registry) end(g *grant) (left []*grant) {
	if g.shared() {
		if g.root.forgotten {
			r.remove(g)
		} else if oldest := push(&g.root.gone, g); oldest != nil {
			r.remove(oldest)
		}
		return nil
	}
	oldest := push(&r.gone, g)
	if oldest == nil {
		return nil
	}
	r.remove(oldest)
	left, oldest.gone, oldest.forgotten = oldest.gone, nil, true
	return left
}

// push appends g to gone. If there are more than MaxGone then, it removes the oldest and
// returns it.
func push(gone *[]*grant, g *grant) (oldest *grant) {
	*gone = append(*gone, g)
	if len(*gone) <= MaxGone {
		return nil
	}
	oldest, (*gone)[0] = (*gone)[0], nil
	*gone = (*gone)[1:]
	return oldest
}

// after returns at most max grants after the one with that order, oldest first.
func (r *registry) after(order uint64, max int) (gs []*grant) {
	r.byOrder.Ascend(order+1, func(_ uint64, g *grant) bool {
		gs = append(gs, g)
		return len(gs) < max
	})
	return gs
}

// byID returns the grant with that id, or nil.
func (r *registry) byID(id string) *grant {
	order, err := orderOf(id)
	if err != nil {
		return nil
	}
	g, _ := r.byOrder.Get(order)
	return g
}

// ofGuest returns the grants of a guest, in no particular order.
func (r *registry) ofGuest(name string) []*grant {
	if holder := r.guests[name]; holder != nil {
		return slices.Collect(maps.Keys(holder.grants))
	}
	return nil
}

// orderOf returns the number in an id. It answers invalid if id is no id.
func orderOf(id string) (uint64, error) {
	if grantID.MatchString(id) {
		if n, err := strconv.ParseUint(id[1:], 10, 64); err == nil {
			return n, nil
		}
	}
	return 0, vfs.Errorf(vfs.Invalid, "a grant's id is g and a number")
}

// end is called once for every grant: when it was revoked, has expired, or its tree was
// unmounted.
func (h *Host) end(g *grant) {
	h.mu.Lock()
	left := h.registry.end(g)
	giver := g.giver
	g.giver = nil
	h.mu.Unlock()
	if giver != nil {
		giver.Give(meter.Shares, 1)
	}
	for part := range slices.Chunk(left, few) {
		h.mu.Lock()
		for _, g := range part {
			h.registry.remove(g)
		}
		h.mu.Unlock()
	}
}

// MaxGone is how many ended root grants are remembered, and how many ended shares of each
// root grant, so that their locators answer revoked.
const MaxGone = 4096
