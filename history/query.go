package history

import (
	"context"
	"database/sql"
	"errors"
	"slices"
	"strings"

	"capd/database"
	"capd/vfs"
)

// page is how many rows are read at once.
const page = 1024

// Entries returns the entries of the root grant top, the newest first, that are older than before (0: all), until each says that it has
// enough. Rows that have not ended are left out.
func (j *Journal) Entries(ctx context.Context, top, before int64, each func(entry []*Row) (more bool)) error {
	if before <= 0 {
		before = 1 << 62
	}
	var pending []*Row
	for {
		rows, err := j.read(ctx, columns+"WHERE top=? AND entry<? AND now IS NOT NULL ORDER BY entry DESC, id DESC, part DESC LIMIT ?", top, before, page)
		if err != nil {
			return err
		}
		full := len(rows) == page
		for len(rows) > 0 {
			n := slices.IndexFunc(rows, func(r *Row) bool { return r.Entry != rows[0].Entry })
			if n < 0 && full && len(rows) < page { // it may go on
				break
			}
			if n < 0 {
				n = len(rows)
			}
			pending, rows = rows[:n], rows[n:]
			before = pending[0].Entry
			if !each(pending) {
				return nil
			}
		}
		if !full {
			return nil
		}
	}
}

// Since returns until when something is missing in the history of the root grant top, in ms; 0 if nothing is.
func (j *Journal) Since(ctx context.Context, top int64) (ms int64, err error) {
	err = j.db.Read(ctx, func(rows *database.Rows) error {
		err := rows.Row("SELECT at FROM evicted WHERE top=?", top).Scan(&ms)
		if errors.Is(err, sql.ErrNoRows) {
			err = nil
		}
		return err
	})
	return ms, err
}

// touching selects the places of the first change after the one with this id that is about the place path, or that moves a directory above it. Each place is
// looked up by an index.
func touching(path string, id int64) (text string, args []any) {
	var b strings.Builder
	b.WriteString(`WHERE id=(SELECT min(id) FROM (SELECT min(id) AS id FROM journal WHERE path=? AND id>? UNION ALL SELECT min(id) FROM journal WHERE target=? AND id>?`)
	args = []any{[]byte(path), id, []byte(path), id}
	for up, _, nested := cutLast(path); up != "" || nested; up, _, nested = cutLast(up) {
		b.WriteString(` UNION ALL SELECT min(id) FROM journal WHERE path=? AND id>? AND target IS NOT NULL`)
		args = append(args, []byte(up), id)
	}
	b.WriteString(`))`)
	return b.String(), args
}

// next returns the first change after the one with this id that is about the place path, or moves a directory above it; nil if there is none.
func (j *Journal) next(ctx context.Context, path string, id int64) (*Row, error) {
	where, args := touching(path, id)
	rows, err := j.read(ctx, columns+where, args...)
	for _, r := range rows {
		if r.Path == path || r.To == path || r.To != "" && within(path, r.Path) {
			return r, err
		}
	}
	return nil, err
}

// Undone returns how many entries of the root grant top each undo has undone.
func (j *Journal) Undone(ctx context.Context, top int64) (all map[int64]int, err error) {
	all = map[int64]int{}
	err = j.db.Read(ctx, func(rows *database.Rows) error {
		found, err := rows.Query("SELECT undone, count(DISTINCT entry) FROM journal WHERE top=? AND undone IS NOT NULL GROUP BY undone", top)
		if err != nil {
			return err
		}
		defer found.Close()
		for found.Next() {
			var by int64
			var n int
			if err := found.Scan(&by, &n); err != nil {
				return err
			}
			all[by] = n
		}
		return found.Err()
	})
	return all, err
}

// Holding returns the rows of the root grant top that displaced the content of path, the newest first.
func (j *Journal) Holding(ctx context.Context, top int64, path string) ([]*Row, error) {
	return j.read(ctx, columns+"WHERE (path=? AND target IS NULL OR target=?) AND top=? AND now IS NOT NULL ORDER BY id DESC LIMIT 1000", []byte(path), []byte(path), top)
}

// Open opens what r displaced. It answers notFound if that is not kept.
func (j *Journal) Open(ctx context.Context, r *Row) (vfs.Content, error) {
	if r.Kept == "" {
		return nil, errLost
	}
	return j.shelf.Open(ctx, r.Kept)
}

var errLost = vfs.Errorf(vfs.NotFound, "what this change displaced is not kept")

// VersionOf returns the version of what r displaced, which is read if nobody has asked before.
func (j *Journal) VersionOf(ctx context.Context, r *Row) (vfs.Version, error) {
	if r.Was.Version != "" {
		return vfs.ParseVersion(r.Was.Version)
	}
	c, err := j.Open(ctx, r)
	if err != nil {
		return vfs.Version{}, err
	}
	defer c.Close()
	v, _, err := vfs.Hash(ctx, c)
	if err != nil {
		return vfs.Version{}, err
	}
	r.Was.Version = v.String()
	was, id, part := text(r.Was), r.ID, r.Part
	j.db.Spare(func(tx *database.Tx) error {
		_, err := tx.Exec("UPDATE journal SET was=? WHERE id=? AND part=?", was, id, part)
		return err
	})
	return v, nil
}

// Mark notes that the entries were undone by the entry by.
func (j *Journal) Mark(rows []*Row, by int64) error {
	in := map[int64]bool{}
	for _, r := range rows {
		in[r.Entry] = true
	}
	return j.db.Write(func(tx *database.Tx) error {
		for entry := range in {
			// What an undo had undone, and this undoes again, is there again.
			if _, err := tx.Exec("UPDATE journal SET undone=NULL WHERE undone=?", entry); err != nil {
				return err
			}
		}
		for entry := range in {
			if _, err := tx.Exec("UPDATE journal SET undone=? WHERE entry=?", by, entry); err != nil {
				return err
			}
		}
		return nil
	})
}
