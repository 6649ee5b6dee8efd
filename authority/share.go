package authority

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"capd/database"
	"capd/locator"
	"capd/meter"
	"capd/operator"
	"capd/vfs"
	"capd/vfs/membrane"
)

// Share mints a secret for n, which a guest of this host holds. The share has exactly n's
// rights, and ends when the grant that n came from ends. It is durable when Share returns. Its use counts in a part of the
// sharer's meter. The control belongs to the sharer, who can take the share back. Share
// answers invalid for a node of another host, and limit when the share would be nested
// too deep or one too many.
func (h *Host) Share(ctx context.Context, n vfs.Node) ([]byte, *membrane.Control, error) {
	_, secret, ctl, err := h.ShareOn(ctx, n, operator.ShareTerms{})
	return secret, ctl, err
}

// ShareOn is Share on terms. It answers invalid for a term below 0.
func (h *Host) ShareOn(ctx context.Context, n vfs.Node, t operator.ShareTerms) (given operator.Share, secret []byte, ctl *membrane.Control, err error) {
	from, err := h.holder(n)
	if err != nil {
		return given, nil, nil, err
	}
	if membrane.IsTemp(n) {
		return given, nil, nil, errTemp
	}
	if from.meter.Depth() >= meter.MaxDepth {
		return given, nil, nil, errDeep
	}
	minted := locator.NewSecret()
	r := row{parent: from.id, top: from.id, subject: from.subject, digest: digestOf(minted[:]), root: from.root, rights: from.rights, source: from.source, uses: anyUses, since: h.clock.Now()}
	if from.top != 0 {
		r.top = from.top
	}
	if err := h.limitShare(&r, t); err != nil {
		return given, nil, nil, err
	}
	if place, ok := membrane.PlaceOf(n); ok {
		r.rights &= place.Rights
	}
	if err := h.place(ctx, &r, n); err != nil {
		return given, nil, nil, err
	}
	if ctl, err = h.share(n, &r, from); err != nil {
		return given, nil, nil, err
	}
	if r.timed() {
		h.tickOn()
	}
	return r.sharedFrom(from, r.path), minted[:], ctl, nil
}

// holder returns the resident grant through which n is held.
func (h *Host) holder(n vfs.Node) (*grant, error) {
	of := membrane.MeterOf(n)
	if of == nil {
		return nil, errForeign
	}
	h.mu.Lock()
	g := h.residents.byMeter[of]
	h.mu.Unlock()
	if g == nil { // it was revoked and let go of meanwhile, or is of another host
		return nil, cmp.Or(ended(n), errForeign)
	}
	return g, nil
}

// limitShare sets on r what t says. It answers invalid.
func (h *Host) limitShare(r *row, t operator.ShareTerms) error {
	if t.StoredBytes < 0 || t.StoredNodes < 0 {
		return vfs.Errorf(vfs.Invalid, "a quota is above 0; leave it out for none")
	}
	terms := t.Terms()
	r.limits = terms.Limits
	return h.limitTime(r, terms)
}

var errDeep = vfs.Errorf(vfs.Limit, "this is a share of a share, %d deep, and cannot be shared further; ask for a share with fewer shares above it", meter.MaxDepth)

var errTemp = vfs.Errorf(vfs.Denied, "a temporary directory is for its holder alone; copy what is to be shared to a directory of the grant")

var errForeign = vfs.Errorf(vfs.Invalid, "this belongs to no grant of this host")

// ended returns why n's capability has ended, or nil.
func ended(n vfs.Node) error {
	again, err := vfs.Dup(n)
	if err == nil {
		again.Close()
	}
	return err
}

// share makes the share r of n, which came from a grant or share. It counts as a live share there.
func (h *Host) share(n vfs.Node, r *row, from *grant) (*membrane.Control, error) {
	if err := membrane.Take(from.meter, meter.Shares, 1); err != nil {
		return nil, err
	}
	g, err := h.build(r, n, from)
	if err != nil {
		from.meter.Give(meter.Shares, 1)
		return nil, err
	}
	revoker, err := g.control.ForGuest()
	if err != nil {
		h.discard(g)
		return nil, err
	}
	if err = h.admit(g, granting{check: func(tx *database.Tx) error { return number(tx, g, from) }}); err != nil {
		revoker.Release()
		return nil, err
	}
	*r = g.row // with its name
	return revoker, nil
}

// seriesOf returns the name under which the shares of from are counted.
func seriesOf(from *grant) string {
	if from.shared() {
		return from.name
	}
	return string(from.subject)
}

// number names the share g. It answers revoked if from has ended, and limit if too many shares of the root grant are live,
// resident or not.
func number(tx *database.Tx, g, from *grant) error {
	now, err := find(&tx.Rows, byID, from.id)
	if err == nil {
		err = now.end()
	}
	if err != nil {
		return err
	}
	var live int64
	if err := tx.Row("SELECT count(*) FROM grants WHERE top=? AND ended IS NULL", g.top).Scan(&live); err != nil {
		return err
	}
	if most := from.meter.Grant().Limit(meter.Shares); most > 0 && live >= most {
		return vfs.Errorf(vfs.Limit, "%d shares of this grant are live, some of them from before the host was started again (limit shares); take some back", live)
	}
	// The shares of all grants of one name are numbered in one series.
	if _, err := tx.Exec("INSERT INTO subjects(name, shared, made) VALUES(?, 1, ?) ON CONFLICT DO UPDATE SET shared=shared+1", seriesOf(from), time.Now().UnixMilli()); err != nil {
		return err
	}
	var n int64
	if err := tx.Row("SELECT shared FROM subjects WHERE name=?", seriesOf(from)).Scan(&n); err != nil {
		return err
	}
	g.name = fmt.Sprintf("%s/%d", from.name, n)
	return nil
}
