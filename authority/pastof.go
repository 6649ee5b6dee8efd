package authority

import (
	"context"

	"capd/database"
	"capd/record"
	"capd/vfs"
	"capd/vfs/membrane"
)

// PastOf returns a page of what was done through the grant of guest, or through the grant or share with that id, and through what was shared from it;
// also after its end. Paths are from the top of the tree. It answers notFound for an unknown guest, and invalid for one with several grants.
func (h *Host) PastOf(ctx context.Context, guest string, q vfs.PastQuery) (vfs.PastPage, error) {
	r, err := h.readerOf(guest)
	if err != nil {
		return vfs.PastPage{}, err
	}
	return r.history(ctx, q)
}

// UndoOf undoes some of it. The host itself makes the changes: no rule and no right of the guest concerns them.
func (h *Host) UndoOf(ctx context.Context, guest string, w vfs.Undo) (vfs.Undone, error) {
	r, err := h.readerOf(guest)
	if err != nil {
		return vfs.Undone{}, err
	}
	return r.undo(ctx, w)
}

func (h *Host) readerOf(guest string) (r reader, err error) {
	if h.past == nil {
		return r, vfs.Errorf(vfs.Unsupported, "this host keeps no history of changes")
	}
	all, err := h.of(guest)
	id := int64(0)
	switch live := alive(all); {
	case err != nil:
		if id, _ = numberOf(guest); id == 0 { // of a grant that ended long ago only the history is left
			return r, err
		}
	case len(live) == 1 || len(all) == 1:
		id = append(live, all...)[0].id
	case len(live) > 1:
		return r, vfs.Errorf(vfs.Invalid, "this guest has %d grants; name one by its id, see grants", len(live))
	default:
		return r, vfs.Errorf(vfs.Invalid, "this guest had %d grants; name one by its id, see audit", len(all))
	}
	var lineage []record.Holder
	err = h.db.Write(func(tx *database.Tx) (err error) {
		lineage, err = holders(tx, id)
		return err
	})
	if err != nil {
		return r, err
	}
	r = reader{host: h, may: func(context.Context, string) error { return nil }}
	for _, l := range lineage {
		n, err := numberOf(l.ID)
		if err != nil {
			return r, err
		}
		r.ids = append(r.ids, n)
	}
	r.dir = membrane.Guarded(h.root, nil, h.Own(), membrane.Guard{Bulkhead: h.bulkhead})
	return r, nil
}
