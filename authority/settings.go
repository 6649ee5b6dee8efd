package authority

import (
	"context"
	"database/sql"
	"errors"
	"sync"

	"capd/database"
	"capd/meter"
	"capd/vfs/membrane"
)

// settings keeps what is set at the gates of a host's grants; see [membrane.Settings].
type settings struct{ h *Host }

// Revoked ends the rows with those ids and everything shared from them, and shuts what is resident of it.
func (s settings) Revoked(ids []int64) error {
	var ended []int64
	var of map[int64]int
	err := s.h.withdraw(withdrawal{Revoked: ids}, func(tx *database.Tx) (err error) {
		ended, of, err = s.h.endAll(tx, ids, revoked)
		return err
	})
	if err != nil {
		return err
	}
	for top, n := range of {
		s.h.forgets.ended(s.h.db, top, n)
	}
	var shut sync.WaitGroup
	errs := make([]error, len(ended))
	for i, id := range ended {
		if g := s.h.resident(id); g != nil {
			shut.Go(func() { errs[i] = g.control.Gate.Revoke() })
		}
	}
	shut.Wait()
	if of[0] > 0 && s.h.left != nil {
		s.h.left()
	}
	return errors.Join(errs...)
}

// Set keeps what is refused at a path.
func (s settings) Set(id int64, path string, r membrane.Refusals) error {
	s.h.settings.Lock()
	defer s.h.settings.Unlock()
	keep := func(tx *database.Tx) error { return s.h.keepRefusals(tx, id, path, r) }
	if r != 0 {
		return s.h.withdraw(withdrawal{Grant: id, Path: []byte(path), Refuses: r}, keep)
	}
	err := s.h.db.Write(keep)
	if err == nil {
		s.h.withdrawn.allow(id, path)
	}
	return err
}

func (h *Host) keepRefusals(tx *database.Tx, id int64, path string, r membrane.Refusals) error {
	if err := h.noteLocked(tx, id, path, r); err != nil {
		return err
	}
	if r == 0 {
		_, err := tx.Exec("DELETE FROM gates WHERE grant_id=? AND path=?", id, []byte(path))
		return err
	}
	_, err := tx.Exec("INSERT INTO gates(grant_id, path, refuses) VALUES(?, ?, ?) ON CONFLICT DO UPDATE SET refuses=excluded.refuses",
		id, []byte(path), int64(r))
	return err
}

// keepWritable changes what is refused of a grant that is not resident.
func (h *Host) keepWritable(tx *database.Tx, id int64, on bool) error {
	var now int64
	err := tx.Row("SELECT refuses FROM gates WHERE grant_id=? AND path=x''", id).Scan(&now)
	if err != nil && !errors.Is(err, sql.ErrNoRows) {
		return err
	}
	r := membrane.Refusals(now) &^ membrane.RefuseChanges
	if !on {
		r |= membrane.RefuseChanges
	}
	return h.keepRefusals(tx, id, "", r)
}

func keepLimits(tx *database.Tx, id int64, more meter.Limits) error {
	r, err := find(&tx.Rows, byID, id)
	if err != nil {
		return err
	}
	all := meter.Limits{}
	for _, l := range []meter.Limits{r.limits, more} {
		for k, n := range l {
			if n != 0 {
				all[k] = n
			}
		}
	}
	text, err := limitsText(all)
	if err != nil {
		return err
	}
	_, err = tx.Exec("UPDATE grants SET limits=? WHERE id=?", text, id)
	return err
}

// refuse sets at g's gates what the host has set there. The caller holds h.settings.
func (h *Host) refuse(ctx context.Context, g *grant) error {
	defer h.withdrawn.refuse(g)
	return h.db.Read(ctx, func(rows *database.Rows) error {
		found, err := rows.Query("SELECT path, refuses FROM gates WHERE grant_id=?", g.id)
		if err != nil {
			return err
		}
		defer found.Close()
		for found.Next() {
			var path []byte
			var r int64
			if err := found.Scan(&path, &r); err != nil {
				return err
			}
			g.control.Refuse(string(path), membrane.Refusals(r))
		}
		return found.Err()
	})
}
