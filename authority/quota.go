package authority

import (
	"context"
	"sync"

	"capd/database"
	"capd/meter"
	"capd/record"
	"capd/vfs"
	"capd/vfs/membrane"
)

// What a grant has stored counts as long as the grant is there. Its row has what outlives the process: the outcome of a change
// adds to it, in the row of the grant that the change came through and in those of all that it is shared from. What else its meter
// has counted is kept while the host runs.

// quotas is what grants have stored, as far as no row has it. The zero value has nothing.
type quotas struct {
	mu    sync.Mutex
	away  map[int64]meter.Effect // of grants that were resident and are not
	queue map[int64]vfs.Effect   // what is to be added to rows; a write of the database is under way that adds it
}

// charged returns the ids of the rows in which a change at path counts that comes through the grant with the meter by. There are
// none if what is stored there ends with the process.
func (h *Host) charged(by *meter.Meter, path string) (ids []int64) {
	if by == nil || h.mine || h.places != nil && !h.places.Lasting(path) {
		return nil
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	for g := h.residents.byMeter[by]; g != nil; g = g.parent {
		ids = append(ids, g.id)
	}
	return ids
}

// charge adds e to the rows with those ids within about a second.
func (h *Host) charge(ids []int64, e vfs.Effect) {
	if len(ids) == 0 || e == (vfs.Effect{}) {
		return
	}
	q := &h.quotas
	q.mu.Lock()
	first := len(q.queue) == 0
	if first {
		q.queue = map[int64]vfs.Effect{}
	}
	for _, id := range ids {
		sum := q.queue[id]
		q.queue[id] = vfs.Effect{Bytes: sum.Bytes + e.Bytes, Nodes: sum.Nodes + e.Nodes}
	}
	q.mu.Unlock()
	if !first {
		return
	}
	all := sync.OnceValue(func() map[int64]vfs.Effect { // it may be written more than once
		q.mu.Lock()
		defer q.mu.Unlock()
		all := q.queue
		q.queue = nil
		return all
	})
	h.db.Later(func(tx *database.Tx) error {
		for id, e := range all() {
			if err := addStored(tx, []int64{id}, e); err != nil {
				return err
			}
		}
		return nil
	})
}

// staged counts what is counted of a staged directory when it is placed or dropped.
func (h *Host) staged(by *meter.Meter, path string, e vfs.Effect) { h.charge(h.charged(by, path), e) }

// addStored adds e to the rows with those ids.
func addStored(tx *database.Tx, ids []int64, e vfs.Effect) error {
	for _, id := range ids {
		// The sum of two sizes may be more than a row holds; then it is no integer.
		_, err := tx.Exec(`UPDATE grants SET stored_bytes=min(max(stored_bytes+?, 0), 1<<62), stored_nodes=min(max(stored_nodes+?, 0), 1<<62) WHERE id=?`,
			e.Bytes, e.Nodes, id)
		if err != nil {
			return err
		}
	}
	return nil
}

// adding returns what adds e to the rows with those ids, or nil if there is nothing to add.
func adding(ids []int64, e vfs.Effect) func(*database.Tx) error {
	if len(ids) == 0 || e == (vfs.Effect{}) {
		return nil
	}
	return func(tx *database.Tx) error { return addStored(tx, ids, e) }
}

// leaves notes what g has stored, which is resident no more. The caller holds h.mu.
func (h *Host) leaves(g *grant) {
	q := &h.quotas
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.away == nil {
		q.away = map[int64]meter.Effect{}
	}
	e := g.meter.Stored()
	if _, known := q.away[g.id]; known || e != g.stored {
		q.away[g.id] = e
	}
}

// forget forgets the grants with those ids, which have ended.
func (q *quotas) forget(ids []int64) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, id := range ids {
		delete(q.away, id)
	}
}

// storedBy returns what r has stored, for a meter that begins.
func (h *Host) storedBy(r *row) meter.Effect {
	h.mu.Lock()
	defer h.mu.Unlock()
	if g, _ := h.residents.byID.Get(r.id); g != nil { // it led to what was unmounted
		return g.meter.Stored()
	}
	h.quotas.mu.Lock()
	defer h.quotas.mu.Unlock()
	if e, ok := h.quotas.away[r.id]; ok {
		return e
	}
	return r.stored
}

// countStored begins to count, for all grants together, what they have stored.
func (h *Host) countStored() {
	var e meter.Effect
	err := h.db.Read(context.Background(), func(rows *database.Rows) error {
		return rows.Row("SELECT CAST(min(total(stored_bytes), 1<<62) AS INTEGER), CAST(min(total(stored_nodes), 1<<62) AS INTEGER) FROM grants WHERE top IS NULL").Scan(&e.Bytes, &e.Nodes)
	})
	if err == nil {
		h.meters.All().Resume(e)
	}
}

// settled returns by how much the change e has made stored data grow, which is done, and the ids of the rows in which that counts,
// the grants that the record names. Of what e replaced or removed only the size of files is known.
func settled(e *record.Entry) (ids []int64, grew vfs.Effect) {
	for _, g := range e.Grants {
		if id, err := numberOf(g.ID); err == nil {
			ids = append(ids, id)
		}
	}
	var was int64
	if e.Was != nil {
		was = e.Was.Size
	}
	switch e.Op {
	case membrane.OpCreate.String(), membrane.OpMkdir.String(), membrane.OpSymlink.String():
		return ids, vfs.Effect{Bytes: e.Bytes, Nodes: e.Nodes}
	case membrane.OpReplace.String():
		return ids, vfs.Effect{Bytes: e.Size - was, Nodes: e.Nodes}
	case membrane.OpRemove.String():
		return ids, vfs.Effect{Bytes: -was, Nodes: -1}
	}
	return ids, vfs.Effect{}
}
