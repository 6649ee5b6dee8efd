package authority

import (
	"capd/meter"
	"capd/operator"
)

// Metered is a grant and the meter in which its use counts.
type Metered struct {
	operator.Grant
	Meter *meter.Meter
}

// Metered returns at most max grants that may hold something, oldest first, as Grants
// does. A revoked grant is included while something that it held is left.
func (h *Host) Metered(after string, max int) ([]Metered, error) {
	return listed(h, after, max, func(g *grant) (Metered, bool) { return Metered{g.now(), g.meter}, g.meter != nil })
}

// Grants returns at most max grants, oldest first. It begins after the grant with the id
// after, which may be forgotten by now, or with the first for "". It answers invalid if
// after is no id, and notFound if no grant ever had that id.
func (h *Host) Grants(after string, max int) ([]operator.Grant, error) {
	return listed(h, after, max, func(g *grant) (operator.Grant, bool) { return g.now(), true })
}

// listed returns what of returns for the grants after one, without those that it leaves out. h.mu is held
// when of is called.
func listed[T any](h *Host, after string, max int, of func(*grant) (T, bool)) (out []T, err error) {
	order, err := h.orderAfter(after)
	if err != nil {
		return nil, err
	}
	h.each(order, func(g *grant) bool {
		if one, ok := of(g); ok {
			out = append(out, one)
		}
		return len(out) < max
	})
	return out, nil
}

// orderAfter returns the order of the grant with that id, or 0 for "".
func (h *Host) orderAfter(id string) (order uint64, err error) {
	if id == "" {
		return 0, nil
	}
	if order, err = orderOf(id); err != nil {
		return 0, err
	}
	h.mu.Lock()
	last := h.registry.lastID
	h.mu.Unlock()
	if order > last {
		return 0, errNoGrant
	}
	return order, nil
}

// few is how many grants are visited under one hold of the host's lock.
const few = 256

// each calls f for every grant after the one with that order, oldest first, until f
// returns false. h.mu is held while f runs. It is released after every few grants, so
// grants that are added or forgotten meanwhile may be missed.
func (h *Host) each(order uint64, f func(*grant) bool) {
	for more := true; more; {
		order, more = h.eachOfFew(order, f)
	}
}

func (h *Host) eachOfFew(order uint64, f func(*grant) bool) (last uint64, more bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	gs := h.registry.after(order, few)
	for _, g := range gs {
		if order = g.order; !f(g) {
			return order, false
		}
	}
	return order, len(gs) == few
}
