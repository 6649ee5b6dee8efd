package authority

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"

	"capd/database"
	"capd/meter"
	"capd/operator"
	"capd/vfs"
	"capd/vfs/membrane"
)

// of returns the rows of a guest, in either form of its name, or the one with that id, oldest first.
func (h *Host) of(guest string) (all []*row, err error) {
	err = h.db.Read(context.Background(), func(rows *database.Rows) error {
		id, _ := numberOf(guest) // 0, which no grant has, for a name
		all, err = scanAll(rows, columns+"WHERE name=? OR id=? ORDER BY id", operator.GuestName(guest), id)
		return err
	})
	if err == nil && len(all) == 0 {
		err = vfs.Errorf(vfs.NotFound, "no guest has that name and no grant that id; see grants")
	}
	return all, err
}

// live returns the rows of a guest, or the one with that id, that have not ended. If all have ended it answers revoked.
func (h *Host) live(guest string) ([]*row, error) {
	all, err := h.of(guest)
	if err != nil {
		return nil, err
	}
	for _, r := range all {
		h.withdrawn.mark(r)
	}
	if live := alive(all); len(live) > 0 {
		return live, nil
	}
	return nil, gone(all)
}

func alive(all []*row) []*row {
	return slices.DeleteFunc(slices.Clone(all), func(r *row) bool { return r.ended != "" })
}

// Revoke revokes every grant of guest, or the grant with that id, and everything shared
// from them. It returns when that is durable and nothing can change through them any more. It returns how
// many of them were not revoked before, not counting shares. It answers busy as
// membrane.Gate.Revoke does. It also ends the invitations of guest, which count like grants.
func (h *Host) Revoke(guest string) (int, error) {
	known, invites, uninvited := h.uninvite(guest) // first, so that it asks for nothing more
	all, err := h.of(guest)
	if vfs.CodeOf(err) == vfs.NotFound && known {
		return invites, uninvited
	}
	if err != nil {
		return 0, errors.Join(uninvited, err)
	}
	err = each(all, h.revoke)
	return len(alive(all)) + invites, errors.Join(uninvited, err)
}

// revoke revokes one grant or share. One that was revoked is revoked again, since a change through it may be stuck.
func (h *Host) revoke(r *row) error {
	if g := h.resident(r.id); g != nil {
		err := g.control.Revoke()
		if err == nil {
			h.burials.Go(func() { h.bury(g, h.take(g)) }) // an earlier bury may have left something because of a stuck change
		}
		return err
	}
	if r.ended != "" {
		return nil
	}
	return settings{h}.Revoked([]int64{r.id})
}

// SetWritable unlocks or locks every grant of guest, or the grant with that id, for
// writing. It returns how many there are, when that is durable. It answers revoked when all of them have ended.
func (h *Host) SetWritable(guest string, on bool) (int, error) {
	live, err := h.live(guest)
	if err != nil {
		return 0, err
	}
	return len(live), each(live, func(r *row) error { return h.setWritable(r.id, on) })
}

// setWritable changes the row alone if the grant is not resident.
func (h *Host) setWritable(id int64, on bool) error {
	h.settings.Lock()
	g := h.resident(id)
	if g == nil {
		defer h.settings.Unlock()
		keep := func(tx *database.Tx) error { return h.keepWritable(tx, id, on) }
		if on {
			err := h.db.Write(keep)
			if err == nil {
				h.withdrawn.allow(id, "")
			}
			return err
		}
		return h.withdraw(withdrawal{Grant: id, Locked: true}, keep)
	}
	ctl := g.control.Dup() // with which g stays resident
	h.settings.Unlock()
	defer ctl.Release()
	return ctl.SetWritable(on)
}

// SetLimits changes limits of every grant of guest, or of the grant with that id, and
// returns how many there are, when that is durable; see [meter.Meter.Set]. It answers revoked when all of them
// have ended.
func (h *Host) SetLimits(guest string, l meter.Limits) (int, error) {
	live, err := h.live(guest)
	if err != nil {
		return 0, err
	}
	h.settings.Lock()
	defer h.settings.Unlock()
	err = h.db.Write(func(tx *database.Tx) error {
		for _, r := range live {
			if err := keepLimits(tx, r.id, l); err != nil {
				return err
			}
			if err := h.noteLimits(tx, r, l); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return 0, err
	}
	for _, r := range live {
		if g := h.resident(r.id); g != nil {
			g.meter.Set(l)
		}
	}
	return len(live), nil
}

// gone is the error for an operation on grants of one guest that have all ended. It is
// worded for those who give grants.
func gone(all []*row) error {
	last := all[len(all)-1]
	what, ended, next := "grant "+idText(last.id)+" of "+last.name+" was", "taken back", "grant("+last.name+") makes another"
	if len(all) > 1 {
		what = "the grants of " + last.name + " were"
	}
	if last.parent != 0 {
		what, next = "the share "+last.name+" was", "whoever shared it can share it again"
	}
	code := vfs.CodeOf(last.end())
	if code != vfs.Revoked {
		ended = "ended"
	}
	return vfs.Errorf(code, "%s %s; %s", what, ended, next)
}

// Meter returns the meter of one grant, which becomes resident. For a grant that is gone it answers the code that
// calls through the grant answer.
func (h *Host) Meter(ctx context.Context, id string) (*meter.Meter, error) {
	g, err := h.named(ctx, id)
	if err != nil {
		return nil, err
	}
	return g.meter, nil
}

// Control returns the control of one grant, which becomes resident. What is set with it is durable when it answers. For a grant that is gone it answers the code
// that calls through the grant answer.
func (h *Host) Control(ctx context.Context, id string) (*membrane.Control, error) {
	for {
		g, err := h.named(ctx, id)
		if err != nil {
			return nil, err
		}
		if ctl := h.control(g); ctl != nil {
			return ctl, nil
		}
	}
}

// named makes the grant with that id resident.
func (h *Host) named(ctx context.Context, id string) (*grant, error) {
	n, err := numberOf(id)
	if err != nil {
		return nil, errNoGrant
	}
	g, err := h.load(ctx, n)
	if code := vfs.CodeOf(err); code == vfs.Revoked || code == vfs.Expired {
		if all, err := h.of(id); err == nil && all[0].ended != "" {
			return nil, gone(all)
		}
	}
	return g, err
}

var errNoGrant = vfs.Errorf(vfs.NotFound, "there is no grant with that id; see grants")

// each runs f for all rows at once, so that a stuck one does not delay the others.
func each(all []*row, f func(*row) error) error {
	errs := make([]error, len(all))
	var wg sync.WaitGroup
	for i, r := range all {
		wg.Go(func() { errs[i] = f(r) })
	}
	wg.Wait()
	var texts []string
	for i, err := range errs {
		e, ok := errors.AsType[*vfs.Error](err)
		switch {
		case ok && e.Code == vfs.Busy:
			texts = append(texts, idText(all[i].id)+": "+e.Msg)
		case err != nil:
			return err
		}
	}
	if len(texts) > 0 {
		return vfs.Errorf(vfs.Busy, "%s", strings.Join(texts, "; "))
	}
	return nil
}
