package authority

import (
	"capd/database"
	"capd/record"
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
