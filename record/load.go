package record

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"maps"
	"slices"

	"golang.org/x/mod/sumdb/tlog"

	"capd/database"
	"capd/vfs"
)

var errDamaged = vfs.Errorf(vfs.Corrupt, "the record in the host's state is damaged, and capd audit verify says where; restore a backup of the state")

const (
	selectSize   = "SELECT coalesce(max(seq) + 1, 0) FROM record"
	selectFirst  = "SELECT coalesce(min(seq), 0) FROM record"
	selectMeta   = "SELECT value FROM meta WHERE key = ?"
	selectBytes  = "SELECT coalesce(sum(length(body)), 0) FROM record WHERE seq >= ?"
	selectHashes = "SELECT hash FROM blocks WHERE level = ? AND n >= ? ORDER BY n"
	selectBodies = "SELECT body FROM record WHERE seq >= ? ORDER BY seq"
)

// load reads the top of the tree, and the intents that have not ended.
func (l *Log) load() error {
	var size, settled int64
	ctx := context.Background()
	err := l.db.Read(ctx, func(r *database.Rows) (err error) {
		l.tree = frontier{}
		if err := l.tree.load(r); err != nil {
			return err
		}
		if err := cmp.Or(r.Row(selectSize).Scan(&size), r.Row(selectFirst).Scan(&l.first)); err != nil {
			return err
		}
		settled, err = number(r, metaSettled)
		return cmp.Or(err, l.loadBytes(r))
	})
	switch {
	case err != nil:
		return err
	case l.tree.size != size:
		return errDamaged
	}
	return l.loadOpen(ctx, settled)
}

// number returns a number that is kept, or 0.
func number(r *database.Rows, key string) (n int64, err error) {
	if err = r.Row(selectMeta, key).Scan(&n); errors.Is(err, sql.ErrNoRows) {
		err = nil
	}
	return n, err
}

// loadBytes finds out how many bytes the entries have.
func (l *Log) loadBytes(r *database.Rows) error {
	counted, err := number(r, metaCounted)
	if err != nil {
		return err
	}
	if l.bytes, err = number(r, metaBytes); err != nil {
		return err
	}
	var rest int64
	err = r.Row(selectBytes, counted).Scan(&rest)
	l.bytes += rest
	return err
}

// load builds the tree from its blocks and the entries behind them.
func (f *frontier) load(r *database.Rows) error {
	for _, level := range []int{superLevel, blockLevel} {
		err := each(r, func(hash []byte) error {
			if len(hash) != tlog.HashSize {
				return errDamaged
			}
			f.add(level, tlog.Hash(hash))
			return nil
		}, selectHashes, level, f.size>>level)
		if err != nil {
			return err
		}
	}
	return each(r, func(body []byte) error {
		f.add(0, tlog.RecordHash(body))
		return nil
	}, selectBodies, f.size)
}

// each calls do with every value that a query for one column finds.
func each(r *database.Rows, do func([]byte) error, query string, args ...any) error {
	rows, err := r.Query(query, args...)
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		var value []byte
		if err := rows.Scan(&value); err != nil {
			return err
		}
		if err := do(value); err != nil {
			return err
		}
	}
	return rows.Err()
}

// loadOpen finds the intents from number from on that have not ended.
func (l *Log) loadOpen(ctx context.Context, from int64) error {
	open := map[int64]Numbered{}
	for e, err := range Entries(ctx, l.db, Query{From: from}) {
		switch {
		case err != nil:
			return err
		case e.Kind == Intended:
			open[e.Number] = e
		default:
			delete(open, e.Of)
		}
	}
	for _, id := range slices.Sorted(maps.Keys(open)) {
		l.unsettled = append(l.unsettled, open[id])
		l.open[id] = true
	}
	return nil
}
