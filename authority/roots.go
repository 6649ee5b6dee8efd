package authority

import (
	"cmp"
	"reflect"

	"capd/operator"
	"capd/policy"
)

// Roots returns the roots of the tree, in the order of their declaration.
func (h *Host) Roots() []operator.Root { return h.roots.Load().All() }

// SetRoots exchanges the roots of the tree. What was granted stays. But if r withholds other paths from a grant than before,
// what its guest has open becomes stale, and the locator leads to it again. SetRoots answers busy if a change through such a
// grant does not end.
func (h *Host) SetRoots(r *policy.Roots) (err error) {
	for _, g := range h.exchangeRoots(r) {
		err = cmp.Or(err, h.interrupt(g))
	}
	return err
}

// exchangeRoots returns the resident root grants from which r withholds other paths than the roots before it. No grant becomes
// resident by those any more.
func (h *Host) exchangeRoots(r *policy.Roots) (changed []*grant) {
	h.granting.Lock()
	defer h.granting.Unlock()
	h.settings.Lock()
	defer h.settings.Unlock()
	was := h.roots.Swap(r)
	h.mu.Lock()
	defer h.mu.Unlock()
	h.residents.byID.Scan(func(_ int64, g *grant) bool {
		if !g.shared() && !reflect.DeepEqual(was.Withheld(g.subject, g.path), r.Withheld(g.subject, g.path)) {
			changed = append(changed, g)
		}
		return true
	})
	return changed
}
