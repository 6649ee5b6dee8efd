package authority

import (
	"cmp"
	"errors"
	"slices"
	"strings"
	"sync"

	"capd/meter"
	"capd/operator"
	"capd/vfs"
	"capd/vfs/membrane"
)

// of returns the grants of a guest, in either form of its name, or the grant with that id.
func (h *Host) of(guest string) ([]*grant, error) {
	guest = operator.GuestName(guest)
	h.mu.Lock()
	gs := h.registry.ofGuest(guest)
	if g := h.registry.byID(guest); g != nil {
		gs = append(gs, g)
	}
	h.mu.Unlock()
	if len(gs) == 0 {
		return nil, vfs.Errorf(vfs.NotFound, "no guest has that name and no grant that id; see grants")
	}
	slices.SortFunc(gs, func(a, b *grant) int { return cmp.Compare(a.order, b.order) })
	return gs, nil
}

// Revoke revokes every grant of guest, or the grant with that id, and everything shared
// from them. It returns when nothing can change through them any more. It returns how
// many of them were not revoked before, not counting shares. It answers busy as
// membrane.Gate.Revoke does.
func (h *Host) Revoke(guest string) (int, error) {
	gs, err := h.of(guest)
	if err != nil {
		return 0, err
	}
	// Revoked grants are revoked again, since a change through them may be stuck.
	return len(alive(gs)), all(gs, h.revoke)
}

// SetWritable unlocks or locks every grant of guest, or the grant with that id, for
// writing. It returns how many there are. It answers revoked when all of them have ended.
func (h *Host) SetWritable(guest string, on bool) (int, error) {
	gs, err := h.of(guest)
	if err != nil {
		return 0, err
	}
	live := alive(gs)
	if len(live) == 0 {
		return 0, gone(gs)
	}
	return len(live), all(live, func(g *grant) error {
		if ctl := g.control.Load(); ctl != nil {
			return ctl.SetWritable(on)
		}
		return nil // revoked meanwhile
	})
}

// alive returns the grants that have not ended.
func alive(gs []*grant) []*grant {
	return slices.DeleteFunc(slices.Clone(gs), (*grant).dead)
}

// SetLimits changes limits of every grant of guest, or of the grant with that id, and
// returns how many there are; see [meter.Meter.Set]. It answers revoked when all of them
// have ended.
func (h *Host) SetLimits(guest string, l meter.Limits) (int, error) {
	gs, err := h.of(guest)
	if err != nil {
		return 0, err
	}
	n := 0
	for _, g := range alive(gs) {
		if m := h.meterOf(g); m != nil {
			m.Set(l)
			n++
		}
	}
	if n == 0 {
		return 0, gone(gs)
	}
	return n, nil
}

// gone is the error for an operation on grants of one guest that have all ended. It is
// worded for those who give grants.
func gone(gs []*grant) error {
	last := gs[len(gs)-1]
	what, ended, next := "grant "+last.ID+" of "+last.Guest+" was", "taken back", "grant("+last.Guest+") makes another"
	if len(gs) > 1 {
		what = "the grants of " + last.Guest + " were"
	}
	if last.shared() {
		what, next = "the share "+last.Guest+" was", "whoever shared it can share it again"
	}
	code := vfs.CodeOf(last.end())
	if code != vfs.Revoked {
		ended = "ended"
	}
	return vfs.Errorf(code, "%s %s; %s", what, ended, next)
}

// Meter returns the meter of one grant. For a grant that is gone it answers the code that
// calls through the grant answer.
func (h *Host) Meter(id string) (*meter.Meter, error) {
	g, err := h.byID(id)
	if err != nil {
		return nil, err
	}
	if m := h.meterOf(g); m != nil {
		return m, nil
	}
	return nil, gone([]*grant{g})
}

func (h *Host) meterOf(g *grant) *meter.Meter {
	h.mu.Lock()
	defer h.mu.Unlock()
	return g.meter
}

// Control returns the control of one grant. For a grant that is gone it answers the code
// that calls through the grant answer.
func (h *Host) Control(id string) (*membrane.Control, error) {
	g, err := h.byID(id)
	if err != nil {
		return nil, err
	}
	if ctl := g.control.Load(); ctl != nil {
		return ctl.Dup(), nil
	}
	return nil, gone([]*grant{g})
}

func (h *Host) byID(id string) (*grant, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if g := h.registry.byID(id); g != nil {
		return g, nil
	}
	return nil, errNoGrant
}

var errNoGrant = vfs.Errorf(vfs.NotFound, "there is no grant with that id; see grants")

// all runs f for all grants at once, so that a stuck one does not delay the others.
func all(gs []*grant, f func(*grant) error) error {
	errs := make([]error, len(gs))
	var wg sync.WaitGroup
	for i, g := range gs {
		wg.Go(func() { errs[i] = f(g) })
	}
	wg.Wait()
	var texts []string
	for i, err := range errs {
		if e, ok := errors.AsType[*vfs.Error](err); ok {
			texts = append(texts, gs[i].ID+": "+e.Msg)
		} else if err != nil {
			return err
		}
	}
	if len(texts) > 0 {
		return vfs.Errorf(vfs.Busy, "%s", strings.Join(texts, "; "))
	}
	return nil
}
