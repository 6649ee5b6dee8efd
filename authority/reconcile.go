package authority

import (
	"context"
	"database/sql"
	"errors"
	"time"

	"capd/database"
	"capd/locator"
	"capd/operator"
)

// Wanted is a grant that there should be.
type Wanted struct {
	Guest, Path string
	Terms       operator.Terms
	Again       bool // if there was such a grant and it has ended, there shall be no other
	// Permissions are what the guest gets besides without asking anybody, with any invitation. Reconcile alone regards them.
	Permissions []operator.Permission
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
	w, path, err := h.wanted(ctx, w)
	if err != nil {
		return Standing{}, err
	}
	all, err := h.made(ctx, w.Terms.Source)
	if err != nil {
		return Standing{}, err
	}
	for _, r := range all {
		if r.rights == w.Terms.Rights && h.fits(ctx, r, w, path) {
			return h.standing(ctx, r, w)
		}
	}
	return h.grantNew(ctx, w)
}

// Reconcile makes the grants of one source what is wanted: it keeps those to the same node, on the terms that are wanted,
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
			if out[i], err = h.missing(ctx, w, paths[i]); err != nil {
				return nil, &Unwanted{Index: i, Err: err}
			}
			continue
		}
		if out[i], err = h.standing(ctx, all[at], w); err != nil {
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
	h.setManifests(wanted)
	return out, nil
}

// missing makes the grant that w asks for, at path, unless it has ended and shall not be made again.
func (h *Host) missing(ctx context.Context, w Wanted, path string) (Standing, error) {
	if !w.Again {
		return h.grantNew(ctx, w)
	}
	var last *row
	err := h.db.Read(ctx, func(rows *database.Rows) (err error) {
		last, err = scan(rows.Row(columns+"WHERE source=? AND name=? AND path=? AND parent IS NULL ORDER BY id DESC LIMIT 1", w.Terms.Source, w.Guest, []byte(path)))
		return err
	})
	switch {
	case errors.Is(err, sql.ErrNoRows) || err == nil && last.ended == "":
		return h.grantNew(ctx, w)
	case err != nil:
		return Standing{}, err
	}
	return Standing{Grant: last.described(), Since: time.UnixMilli(last.since)}, nil
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
	for _, r := range all {
		h.withdrawn.mark(r)
	}
	return alive(all), err
}

// fits reports whether r is what w asks for, at path, and its locator leads there now. Its terms may be others.
func (h *Host) fits(ctx context.Context, r *row, w Wanted, path string) bool {
	if r.name != w.Guest || r.path != path {
		return false
	}
	_, err := h.load(ctx, r.id)
	return err == nil
}

// standing returns the grant r, on the terms that w asks for.
func (h *Host) standing(ctx context.Context, r *row, w Wanted) (Standing, error) {
	if err := h.setTerms(r, w.Terms); err != nil {
		return Standing{}, err
	}
	now, err := h.read(ctx, r.id)
	if now == nil {
		return Standing{}, err
	}
	out := Standing{Grant: now.described(), Since: time.UnixMilli(r.since)}
	if err != nil { // its time is over
		out.State = stateOf(err)
	}
	return out, nil
}

func (h *Host) grantNew(ctx context.Context, w Wanted) (Standing, error) {
	g, secret, err := h.GrantOn(ctx, w.Guest, w.Path, w.Terms)
	return Standing{g, time.Now(), &secret}, err
}
