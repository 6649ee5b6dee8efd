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
