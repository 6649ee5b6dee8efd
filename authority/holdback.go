package authority

import (
	"cmp"
	"context"
	"maps"

	"capd/operator"
	"capd/vfs"
)

// HoldBack ends what guests have open through those grants of a source that a Reconcile with wanted would revoke, or leave with
// fewer rights. Their locators answer busy until release is called, after that Reconcile. So these guests use nothing that is
// mounted in between. HoldBack answers [Unwanted] for what cannot be granted because of the roots, and busy if a change through
// such a grant does not end; then nothing is held back.
func (h *Host) HoldBack(ctx context.Context, source string, wanted []Wanted) (release func(), err error) {
	next, err := h.foreseen(wanted)
	if err != nil {
		return nil, err
	}
	all, err := h.made(ctx, source)
	if err != nil {
		return nil, err
	}
	losing := map[int64]bool{}
	for _, r := range all {
		if !r.stays(next) {
			losing[r.id] = true
		}
	}
	h.holdBack(losing)
	for id := range losing {
		if g := h.resident(id); g != nil {
			err = cmp.Or(err, h.interrupt(g))
		}
	}
	if err != nil {
		h.holdBack(nil)
		return nil, err
	}
	return func() { h.holdBack(nil) }, nil
}

// foreseen returns wanted with the names, paths and rights that the roots give them. Links on the paths are not followed.
func (h *Host) foreseen(wanted []Wanted) (all []Wanted, err error) {
	roots := h.roots.Load()
	for i, w := range wanted {
		subject, err := operator.ParseSubject(w.Guest)
		in := inRoots(subject, w.Path, w.Terms)
		if err == nil {
			w.Path, _, err = roots.Find(in)
		}
		if err == nil {
			w.Terms.Rights, _, err = roots.Admit(in, w.Path)
		}
		if err == nil {
			w.Terms.Rights, err = w.Terms.Keep()
		}
		if err != nil {
			return nil, &Unwanted{Index: i, Err: vfs.At(w.Path, err)}
		}
		w.Guest = subject.Name()
		all = append(all, w)
	}
	return all, nil
}

// stays reports whether one of wanted is r, with at least its rights.
func (r *row) stays(wanted []Wanted) bool {
	for _, w := range wanted {
		if w.Guest == r.name && w.Path == r.path {
			return r.rights&^w.Terms.Rights == 0
		}
	}
	return false
}

// holdBack says which root grants are held back from now on.
func (h *Host) holdBack(ids map[int64]bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.back = maps.Clone(ids)
}

// heldBack answers busy if g is held back. The caller holds h.mu.
func (h *Host) heldBack(g *grant) error {
	if h.back[cmp.Or(g.top, g.id)] {
		return errHeldBack
	}
	return nil
}

var errHeldBack = vfs.Errorf(vfs.Busy, "the host is reading its configuration again; try again")
