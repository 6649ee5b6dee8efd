package authority

import (
	"slices"
	"strconv"

	"github.com/tidwall/btree"

	"capd/meter"
	"capd/vfs"
)

// registry files the grants by secret, by id and by guest. The host's lock is held
// around each call. No call takes longer the more grants there are, beyond a
// logarithm, except ofGuest, which answers the grants of one guest.
type registry struct {
	byDigest map[digest]*grant
	byOrder  btree.Map[uint64, *grant]
	byMeter  map[*meter.Meter]*grant // those that are not buried
	guests   map[string]*guest
	lastID   uint64
	gone     []*grant // root grants that have ended, the first to end first
}

// guest is a name and the grants that are held under it.
type guest struct {
	grants map[*grant]struct{}
	shared int // how many grants were ever shared from these
}

func newRegistry() registry {
	return registry{byDigest: map[digest]*grant{}, byMeter: map[*meter.Meter]*grant{}, guests: map[string]*guest{}}
}

// add files g, which has its digest, under a new id and the name of its guest.
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

// unmeter takes g's meter from it.
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

// end notes that g has ended. Of those that have ended,
// MaxGone root grants are remembered, and MaxGone of those shared from one root
// grant, so that a guest has only its own forgotten. With a root grant all that was
// shared from it is forgotten: end returns what of this is left to remove.
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

// push appends g to gone and takes out what is the oldest then, beyond MaxGone.
func push(gone *[]*grant, g *grant) (oldest *grant) {
	*gone = append(*gone, g)
	if len(*gone) <= MaxGone {
		return nil
	}
	oldest, (*gone)[0] = (*gone)[0], nil
	*gone = (*gone)[1:]
	return oldest
}

// after returns the grants after the one with that order, oldest first, at most max.
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

// ofGuest returns the grants of a guest, in no order.
func (r *registry) ofGuest(name string) (gs []*grant) {
	if holder := r.guests[name]; holder != nil {
		for g := range holder.grants {
			gs = append(gs, g)
		}
	}
	return gs
}

// orderOf is the number in an id. It answers invalid for what is no id.
func orderOf(id string) (uint64, error) {
	if grantID.MatchString(id) {
		if n, err := strconv.ParseUint(id[1:], 10, 64); err == nil {
			return n, nil
		}
	}
	return 0, vfs.Errorf(vfs.Invalid, "a grant's id is g and a number")
}

// end is called once for every grant, when it was revoked, or has expired, or its
// tree was unmounted.
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

// MaxGone is how many revoked grants are remembered, so that their locators answer
// revoked.
const MaxGone = 4096
