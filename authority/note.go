package authority

import (
	"database/sql"
	"errors"

	"capd/database"
	"capd/meter"
	"capd/record"
	"capd/vfs"
	"capd/vfs/membrane"
)

// noteGranted adds to the record that g was granted or shared, in the transaction that adds its row.
func (h *Host) noteGranted(tx *database.Tx, g *grant) error {
	if h.record == nil {
		return nil
	}
	kind := record.Granted
	if g.parent != nil {
		kind = record.Shared
	}
	return h.record.Append(tx, record.Entry{Kind: kind, Grants: g.lineage(), Subject: string(g.subject), Path: record.Path(g.path), Rights: g.rights.String()})
}

// endAll is the function endAll, and adds what it ends to the record.
func (h *Host) endAll(tx *database.Tx, ids []int64, why string) (ended []int64, of map[int64]int, err error) {
	ended, of, err = endAll(tx, ids, why)
	h.quotas.forget(ended)
	if h.asks != nil && err == nil {
		_ = h.asks.Ended(tx, ended) // what is taken back is taken back, whatever is wrong with what waits
	}
	if h.record == nil || err != nil {
		return ended, of, err
	}
	kind := record.Revoked
	if why == expired {
		kind = record.Expired
	}
	for _, id := range ended {
		e := record.Entry{Kind: kind}
		var name, path string
		if err := tx.Row("SELECT name, subject, path FROM grants WHERE id=?", id).Scan(&name, &e.Subject, &path); err != nil {
			return nil, nil, err
		}
		e.Grants, e.Path = []record.Holder{{ID: idText(id), Name: name}}, record.Path(path)
		_ = h.record.Append(tx, e) // what is taken back is taken back, whatever is wrong with the record
	}
	return ended, of, nil
}

// lineage returns g and what it is shared from.
func (g *grant) lineage() (all []record.Holder) {
	for ; g != nil; g = g.parent {
		all = append(all, record.Holder{ID: idText(g.id), Name: g.name})
	}
	return all
}

// holders returns the grant with that id and what it is shared from, as the database has them. It returns none for 0.
func holders(tx *database.Tx, id int64) (all []record.Holder, err error) {
	for id != 0 {
		h := record.Holder{ID: idText(id)}
		var parent sql.NullInt64
		err := tx.Row("SELECT name, parent FROM grants WHERE id=?", id).Scan(&h.Name, &parent)
		if err != nil && !errors.Is(err, sql.ErrNoRows) { // the row may be forgotten
			return nil, err
		}
		all = append(all, h)
		id = parent.Int64
	}
	return all, nil
}

// noteLocked adds to the record what is refused from now on at path below the grant with that id.
func (h *Host) noteLocked(tx *database.Tx, id int64, path string, r membrane.Refusals) (err error) {
	if h.record == nil {
		return nil
	}
	e := record.Entry{Kind: record.Locked, Refuses: r.Names()}
	if e.Grants, err = holders(tx, id); err != nil {
		return err
	}
	at, err := find(&tx.Rows, byID, id)
	switch {
	case errors.Is(err, sql.ErrNoRows):
		return nil // it is forgotten
	case err != nil:
		return err
	}
	if e.Path = record.Path(at.path); path != "" {
		e.Path = record.Path(vfs.Join(at.path, path))
	}
	return h.record.Append(tx, e)
}

// noteLimits adds to the record which limits of r were changed.
func (h *Host) noteLimits(tx *database.Tx, r *row, l meter.Limits) (err error) {
	if h.record == nil {
		return nil
	}
	e := record.Entry{Kind: record.Changed, Path: record.Path(r.path), Limits: map[string]int64{}}
	for k, n := range l {
		if n != 0 {
			e.Limits[k.String()] = n
		}
	}
	if e.Grants, err = holders(tx, r.id); err != nil {
		return err
	}
	return h.record.Append(tx, e)
}
