package authority

import (
	"context"
	"maps"
	"time"

	"capd/database"
	"capd/locator"
	"capd/meter"
	"capd/operator"
)

// Wanted is a grant that there should be.
type Wanted struct {
	Guest, Path string
	Terms       operator.Terms
}

// Standing is a grant that there is.
type Standing struct {
	operator.Grant
	Since  time.Time
	Secret *[locator.SecretSize]byte // nil for a grant that was there before: its holder has the locator
}

// Keep returns the grants that were made before by the same source for w, to the same node with the same rights, if the
// locator still leads there. If there is none it makes one.
func (h *Host) Keep(ctx context.Context, w Wanted) (Standing, error) {
	_, path, err := h.wanted(ctx, w)
	if err != nil {
		return Standing{}, err
	}
	all, err := h.made(ctx, w.Terms.Source)
	if err != nil {
		return Standing{}, err
	}
	for _, r := range all {
		if h.fits(ctx, r, w, path) {
			return h.standing(r, w)
		}
	}
	return h.grantNew(ctx, w)
}

// Reconcile makes the grants of one source what is wanted: it keeps those that there are, with the limits that are wanted,
// makes those that are missing, and revokes the others. It returns one for each that is wanted, in order. If what is
// wanted cannot be granted it changes nothing.
func (h *Host) Reconcile(ctx context.Context, source string, wanted []Wanted) ([]Standing, error) {
	paths := make([]string, len(wanted))
	for i := range wanted {
		wanted[i].Terms.Source = source
		var err error
		if wanted[i], paths[i], err = h.wanted(ctx, wanted[i]); err != nil {
			return nil, &Unwanted{Index: i, Err: err}
		}
	}
	all, err := h.made(ctx, source)
	if err != nil {
		return nil, err
	}
	out := make([]Standing, len(wanted))
	for i, w := range wanted {
		at := -1
		for j, r := range all {
			if r != nil && h.fits(ctx, r, w, paths[i]) {
				at = j
				break
			}
		}
		if at < 0 {
			if out[i], err = h.grantNew(ctx, w); err != nil {
				return nil, &Unwanted{Index: i, Err: err}
			}
			continue
		}
		if out[i], err = h.standing(all[at], w); err != nil {
			return nil, err
		}
		all[at] = nil
	}
	for _, r := range all {
		if r != nil {
			if _, err := h.Revoke(idText(r.id)); err != nil {
				return nil, err
			}
		}
	}
	return out, nil
}

// Unwanted says which of those that Reconcile was given cannot be granted, and why.
type Unwanted struct {
	Index int
	Err   error
}

func (u *Unwanted) Error() string { return u.Err.Error() }
func (u *Unwanted) Unwrap() error { return u.Err }

// wanted checks w, and returns it with the name and the rights of its guest, and where its path leads.
func (h *Host) wanted(ctx context.Context, w Wanted) (Wanted, string, error) {
	h.granting.RLock()
	defer h.granting.RUnlock()
	on, err := h.ground(ctx, w.Guest, w.Path, w.Terms)
	if err != nil {
		return w, "", err
	}
	defer on.release()
	w.Guest, w.Terms.Rights = on.subject.Name(), on.rights
	return w, on.path, nil
}

// made returns the live root grants of a source, oldest first.
func (h *Host) made(ctx context.Context, source string) (all []*row, err error) {
	err = h.db.Read(ctx, func(rows *database.Rows) error {
		all, err = scanAll(rows, columns+"WHERE source=? AND parent IS NULL AND ended IS NULL ORDER BY id", source)
		return err
	})
	return all, err
}

// fits reports whether r is what w asks for, at path, and its locator leads there now.
func (h *Host) fits(ctx context.Context, r *row, w Wanted, path string) bool {
	rights, err := w.Terms.Keep()
	if err != nil || r.name != w.Guest || r.path != path || r.rights != rights {
		return false
	}
	_, err = h.load(ctx, r.id)
	return err == nil
}

// standing returns the grant r, with the limits that w asks for.
func (h *Host) standing(r *row, w Wanted) (Standing, error) {
	if !maps.Equal(r.limits, w.Terms.Limits) {
		if err := h.limit(r.id, w.Terms.Limits); err != nil {
			return Standing{}, err
		}
	}
	return Standing{Grant: r.described(), Since: time.UnixMilli(r.since)}, nil
}

// limit replaces the limits of a grant. Those that l does not have are the defaults again.
func (h *Host) limit(id int64, l meter.Limits) error {
	h.settings.Lock()
	defer h.settings.Unlock()
	text, err := limitsText(l)
	if err != nil {
		return err
	}
	err = h.db.Write(func(tx *database.Tx) error {
		_, err := tx.Exec("UPDATE grants SET limits=? WHERE id=?", text, id)
		return err
	})
	if err != nil {
		return err
	}
	if g := h.resident(id); g != nil {
		all := meter.GrantLimits()
		maps.Copy(all, h.limits)
		maps.Copy(all, l)
		g.meter.Set(all)
	}
	return nil
}

func (h *Host) grantNew(ctx context.Context, w Wanted) (Standing, error) {
	g, secret, err := h.GrantOn(ctx, w.Guest, w.Path, w.Terms)
	return Standing{g, time.Now(), &secret}, err
}
