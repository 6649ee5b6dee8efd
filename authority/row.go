package authority

import (
	"crypto/sha256"
	"database/sql"
	"encoding/json"
	"fmt"
	"time"

	"capd/database"
	"capd/meter"
	"capd/operator"
	"capd/vfs"
	"capd/vfs/membrane"
)

type digest [sha256.Size]byte

func digestOf(secret []byte) digest { return sha256.Sum256(secret) }

// row is a grant or a share as the database has it. Everything but ended and limits is fixed.
type row struct {
	id, parent, top int64 // parent and top are 0 in a root grant
	name            string
	subject         operator.Subject
	digest          digest
	path            string // in the host's tree; no name on it is a link
	identity        string // of the directory, or of the one that a file lies in; "": the store has none
	mounts          map[string]string
	root            string // the id of the root that it was granted in, or ""
	rights          membrane.Rights
	source          string
	uses            int64 // restores that were left when the row was read, or anyUses
	limits          meter.Limits
	stored          meter.Effect // when the row was read; what outlives the process
	since           int64        // milliseconds since 1970; so are the others
	expires         int64        // when it expires; 0: never
	unused          int64        // after how many milliseconds without use it expires; 0: never
	used            int64        // when it was last used, at least; 0: never
	ended           string       // "", or why
}

// anyUses stands for any number of restores. The row has NULL.
const anyUses = -1

// revoked says in a row that the grant was revoked.
const revoked = "revoked"

// end returns what every call answers if r has ended, or nil.
func (r *row) end() error {
	if r.ended == "" {
		return nil
	}
	if r.ended == expired {
		return vfs.Expired
	}
	return vfs.Revoked
}

// insert adds r, and sets its id.
func insert(tx *database.Tx, r *row) error {
	mounts, err := json.Marshal(r.mounts)
	if err != nil {
		return err
	}
	limits, err := limitsText(r.limits)
	if err != nil {
		return err
	}
	now := r.since
	if _, err := tx.Exec("INSERT INTO subjects(name, made) VALUES(?, ?) ON CONFLICT DO NOTHING", r.subject, now); err != nil {
		return err
	}
	done, err := tx.Exec(`INSERT INTO grants(subject, name, digest, parent, top, path, identity, mounts, root, rights, source, uses, limits, expires, unused, made)
		VALUES(?, ?, ?, NULLIF(?, 0), NULLIF(?, 0), ?, NULLIF(?, ''), ?, NULLIF(?, ''), ?, ?, NULLIF(?, -1), ?, NULLIF(?, 0), NULLIF(?, 0), ?)`,
		r.subject, r.name, r.digest[:], r.parent, r.top, []byte(r.path), r.identity, string(mounts), r.root, r.rights, r.source, r.uses, limits, r.expires, r.unused, now)
	if err != nil {
		return err
	}
	r.id, err = done.LastInsertId()
	return err
}

const columns = `SELECT id, COALESCE(parent, 0), COALESCE(top, 0), name, subject, digest, path, COALESCE(identity, ''), mounts, COALESCE(root, ''), rights, source,
	COALESCE(uses, -1), COALESCE(limits, ''), made, COALESCE(expires, 0), COALESCE(unused, 0), COALESCE(used, 0), COALESCE(ended, ''), stored_bytes, stored_nodes FROM grants `

// find reads the row that a query for columns finds. It answers [sql.ErrNoRows].
func find(rows *database.Rows, query string, arg any) (*row, error) {
	return scan(rows.Row(query, arg))
}

const (
	byID     = columns + "WHERE id=?"
	byDigest = columns + "WHERE digest=?"
)

func scan(from interface{ Scan(...any) error }) (*row, error) {
	var r row
	var sum, path []byte
	var mounts, limits string
	err := from.Scan(&r.id, &r.parent, &r.top, &r.name, &r.subject, &sum, &path, &r.identity, &mounts, &r.root, &r.rights, &r.source, &r.uses, &limits, &r.since, &r.expires, &r.unused, &r.used, &r.ended, &r.stored.Bytes, &r.stored.Nodes)
	if err != nil {
		return nil, err
	}
	copy(r.digest[:], sum)
	r.path = string(path)
	if err := json.Unmarshal([]byte(mounts), &r.mounts); err != nil {
		return nil, fmt.Errorf("the mounts of g%d: %w", r.id, err)
	}
	if r.limits, err = limitsOf(limits); err != nil {
		return nil, fmt.Errorf("the limits of g%d: %w", r.id, err)
	}
	return &r, nil
}

// scanAll reads the rows that a query for columns finds.
func scanAll(rows *database.Rows, query string, args ...any) (all []*row, err error) {
	found, err := rows.Query(query, args...)
	if err != nil {
		return nil, err
	}
	defer found.Close()
	for found.Next() {
		r, err := scan(found)
		if err != nil {
			return nil, err
		}
		all = append(all, r)
	}
	return all, found.Err()
}

// limitsText returns limits as a row has them: an object of names and numbers, or NULL.
func limitsText(l meter.Limits) (text sql.NullString, err error) {
	if len(l) == 0 {
		return text, nil
	}
	named := map[string]int64{}
	for k, n := range l {
		named[k.String()] = n
	}
	data, err := json.Marshal(named)
	return sql.NullString{String: string(data), Valid: true}, err
}

// limitsOf is the opposite of limitsText. It leaves out a kind that this capd does not have.
func limitsOf(text string) (meter.Limits, error) {
	if text == "" {
		return nil, nil
	}
	var named map[string]int64
	if err := json.Unmarshal([]byte(text), &named); err != nil {
		return nil, err
	}
	l := meter.Limits{}
	for name, n := range named {
		if k, ok := meter.KindOf(name); ok {
			l[k] = n
		}
	}
	return l, nil
}

// endAll ends the grants with those ids that have not ended, and everything shared from them. It returns the ids of
// what it ended, and how many of them are shares of which root grants; 0 counts root grants.
func endAll(tx *database.Tx, ids []int64, why string) (ended []int64, of map[int64]int, err error) {
	of = map[int64]int{}
	now := time.Now().UnixMilli()
	for _, id := range ids {
		below, err := liveBelow(&tx.Rows, id)
		if err != nil {
			return nil, nil, err
		}
		for _, id := range below {
			if _, err := tx.Exec("UPDATE grants SET ended=?, ended_at=? WHERE id=?", why, now, id); err != nil {
				return nil, nil, err
			}
		}
		if len(below) > 0 {
			var top int64
			if err := tx.Row("SELECT COALESCE(top, 0) FROM grants WHERE id=?", id).Scan(&top); err != nil {
				return nil, nil, err
			}
			of[top] += len(below)
		}
		ended = append(ended, below...)
	}
	return ended, of, nil
}

// liveBelow returns the ids of a grant and of everything shared from it, without those that have ended.
func liveBelow(rows *database.Rows, id int64) ([]int64, error) {
	return ids(rows, `WITH RECURSIVE below(id) AS (
		SELECT id FROM grants WHERE id=? AND ended IS NULL
		UNION ALL SELECT g.id FROM grants g JOIN below ON g.parent=below.id WHERE g.ended IS NULL) SELECT id FROM below`, id)
}

// ids returns the first column of what a query finds.
func ids(rows *database.Rows, query string, args ...any) (all []int64, err error) {
	found, err := rows.Query(query, args...)
	if err != nil {
		return nil, err
	}
	defer found.Close()
	for found.Next() {
		var id int64
		if err := found.Scan(&id); err != nil {
			return nil, err
		}
		all = append(all, id)
	}
	return all, found.Err()
}
