package authority

import (
	"context"
	"database/sql"
	"errors"
	"slices"
	"strings"

	"capd/database"
	"capd/meter"
	"capd/operator"
	"capd/vfs"
	"capd/vfs/membrane"
)

// Shares returns at most max live shares of n, which a guest of this host holds, oldest first: what was shared from n, or
// from what was derived from n, and what was shared from those. It begins after the share with the id after, or with the
// first for "". It answers notFound if n has no share with that id.
func (h *Host) Shares(ctx context.Context, n vfs.Node, after string, max int) (out []operator.Share, err error) {
	of, err := h.holding(n)
	if err != nil {
		return nil, err
	}
	var last int64
	if after != "" {
		r, err := of.find(ctx, after)
		if err != nil {
			return nil, err
		}
		last = r.id
	}
	live, err := of.below(ctx, last)
	if err != nil {
		return nil, err
	}
	for _, r := range live {
		if len(out) < max && !r.over(h.clock.Now()) && of.covers(r) {
			out = append(out, r.sharedFrom(of.grant, of.place.Path))
		}
	}
	return out, nil
}

// RevokeShare revokes the share of n with that id, and everything shared from it, as [membrane.Control.Revoke] does. It
// answers notFound for a share that does not come from n. Revoking it again is no error.
func (h *Host) RevokeShare(ctx context.Context, n vfs.Node, id string) error {
	of, err := h.holding(n)
	if err != nil {
		return err
	}
	r, err := of.find(ctx, id)
	if err != nil {
		return err
	}
	return h.revoke(r)
}

// holding is a node that a guest holds, whose shares it asks about.
type holding struct {
	host  *Host
	node  vfs.Node
	place membrane.Place
	grant *grant // through which it is held
}

func (h *Host) holding(n vfs.Node) (of holding, err error) {
	g, err := h.holder(n)
	if err != nil {
		return of, err
	}
	if err := ended(n); err != nil {
		return of, err
	}
	place, _ := membrane.PlaceOf(n)
	return holding{h, n, place, g}, nil
}

// covers reports whether r, which came from the same grant, can have been shared from the node: it may do no more, and is not
// behind another gate. Of a share that is not resident only the grant's own gate is known.
func (of holding) covers(r *row) bool {
	if r.rights&^of.place.Rights != 0 || !within(r.path, of.place.Path) {
		return false
	}
	if g := of.host.resident(r.id); g != nil {
		return g.control.Below(of.node)
	}
	return of.grant.control.At(of.node)
}

// errNoShare says no more about the shares of others.
var errNoShare = vfs.Errorf(vfs.NotFound, "nothing with that id was shared from this; see shares")

// find returns the share with that id, which may have ended.
func (of holding) find(ctx context.Context, id string) (r *row, err error) {
	if len(id) > maxShareID || strings.Trim(id, "0123456789/") != "" {
		return nil, errNoShare
	}
	top := of.grant.top
	if top == 0 {
		top = of.grant.id
	}
	err = of.host.db.Read(ctx, func(rows *database.Rows) error {
		r, err = scan(rows.Row(columns+"WHERE top=? AND name=?", top, of.grant.name+"/"+id))
		return err
	})
	if errors.Is(err, sql.ErrNoRows) || err == nil && !of.covers(r) {
		return nil, errNoShare
	}
	return r, err
}

// maxShareID bounds the id of a share: a number for each level.
const maxShareID = meter.MaxDepth * len("9223372036854775807/")

// below returns the live shares of the grant after the one with the id last, oldest first.
func (of holding) below(ctx context.Context, last int64) (live []*row, err error) {
	err = of.host.db.Read(ctx, func(rows *database.Rows) error {
		ids, err := liveBelow(rows, of.grant.id)
		if err != nil {
			return err
		}
		slices.Sort(ids)
		for _, id := range ids {
			if id <= last || id == of.grant.id {
				continue
			}
			r, err := find(rows, byID, id)
			if err != nil {
				return err
			}
			live = append(live, r)
		}
		return nil
	})
	return live, err
}

// sharedFrom describes the share r to whoever holds what is at path through from.
func (r *row) sharedFrom(from *grant, path string) operator.Share {
	g := r.described()
	return operator.Share{
		ID: strings.TrimPrefix(r.name, from.name+"/"), Path: strings.TrimPrefix(strings.TrimPrefix(r.path, path), "/"), Rights: r.rights, MadeMs: r.since,
		ExpiresMs: g.ExpiresMs, UnusedMs: g.UnusedMs, UsesLeft: g.UsesLeft,
		StoredBytes: r.limits[meter.StoredBytes], StoredNodes: r.limits[meter.StoredNodes],
	}
}

// within reports whether path is at or below top.
func within(path, top string) bool {
	rest, ok := strings.CutPrefix(path, top)
	return ok && (top == "" || rest == "" || rest[0] == '/')
}
