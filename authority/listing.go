package authority

import "capd/meter"

// Metered is a grant, and the meter that what is done through it counts in.
type Metered struct {
	Grant
	Meter *meter.Meter
}

// Metered returns at most max grants that may hold something, oldest first, as Grants does. A grant
// that was taken back is among them while something is left of what it held.
func (h *Host) Metered(after string, max int) (out []Metered, err error) {
	order, err := h.orderAfter(after)
	if err != nil {
		return nil, err
	}
	h.each(order, func(g *grant) bool {
		if g.meter != nil {
			out = append(out, Metered{g.now(), g.meter})
		}
		return len(out) < max
	})
	return out, nil
}

// Grants returns at most max grants, oldest first: those after the one with that id,
// which may be forgotten since, or from the first for "". It answers invalid for
// what is no id, and notFound for one that no grant ever had.
func (h *Host) Grants(after string, max int) (out []Grant, err error) {
	order, err := h.orderAfter(after)
	if err != nil {
		return nil, err
	}
	h.each(order, func(g *grant) bool {
		out = append(out, g.now())
		return len(out) < max
	})
	return out, nil
}

// orderAfter is the order of the grant with that id, 0 for "".
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

// few is how many grants are looked at while the host's lock is held.
const few = 256

// each calls f for every grant after the one with that order, oldest first, until f
// answers false. h.mu is held while f runs and let go after every few, so that grants
// which come or are forgotten meanwhile may be left out.
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
