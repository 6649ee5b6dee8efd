package approval

import (
	"context"
	"database/sql"
	"encoding/hex"
	"encoding/json"
	"time"

	"capd/database"
	"capd/operator"
)

// maxListed is how many requests List returns at once.
const maxListed = 256

// List returns at most 256 requests that wait, or with all those decided in the last 30 days, too. They have no Diff. The oldest comes first.
// after is the last one that the caller has, or the zero Ask.
func (d *Desk) List(ctx context.Context, all bool, after operator.Ask) (list []operator.Ask, err error) {
	since, last := after.Asked.UnixMilli(), []byte{}
	if after.ID != "" {
		if last, err = hex.DecodeString(after.ID); err != nil {
			return nil, errNoAsk
		}
	} else {
		since = 0
	}
	err = d.db.Read(ctx, func(r *database.Rows) error {
		list = nil
		rows, err := r.Query(`SELECT `+columns+`, '' FROM asks WHERE (? OR decision IS NULL AND asked > ?) AND (asked, id) > (?, ?) ORDER BY asked, id LIMIT ?`,
			all, time.Now().Add(-kept).UnixMilli(), since, last, maxListed)
		if err != nil {
			return err
		}
		defer rows.Close()
		for rows.Next() {
			a, err := scan(rows)
			if err != nil {
				return err
			}
			list = append(list, a)
		}
		return rows.Err()
	})
	return list, err
}

// Show returns the request that ref names, as Decide has it, with its Diff.
func (d *Desk) Show(ctx context.Context, ref string) (a operator.Ask, err error) {
	q, err := d.find(ref)
	if err != nil {
		return a, err
	}
	err = d.db.Read(ctx, func(r *database.Rows) error {
		rows, err := r.Query(`SELECT `+columns+`, ifnull(diff, '') FROM asks WHERE id = ?`, q.id[:])
		if err != nil {
			return err
		}
		defer rows.Close()
		if !rows.Next() {
			return errNoAsk
		}
		a, err = scan(rows)
		return err
	})
	return a, err
}

const columns = `id, subject, ifnull(grant_id, ifnull(result, 0)), op, path, to_path, why, ifnull(size, 0), asked, ifnull(decision, ''), ifnull(answer, ''), ifnull(by, ''), ifnull(decided, 0), spent IS NOT NULL,
	ifnull(want, ''), ifnull(words, ''), ifnull(given, 0)`

// scan reads columns and a diff.
func scan(rows *sql.Rows) (a operator.Ask, err error) {
	var id, path, to, why []byte
	var want string
	var grant, asked, decided int64
	err = rows.Scan(&id, &a.Guest, &grant, &a.Operation, &path, &to, &why, &a.Size, &asked, &a.Answer, &a.Reason, &a.By, &decided, &a.Used, &want, &a.Words, &a.Given, &a.Diff)
	if err != nil {
		return a, err
	}
	a.ID, a.Path, a.To, a.Asked = hex.EncodeToString(id), string(path), string(to), time.UnixMilli(asked)
	if grant != 0 {
		a.Grant = grantID(grant)
	}
	if r, err := requestOf(want); err != nil {
		return a, err
	} else if r != nil {
		a.Root, a.Access = r.Root, r.Access
	}
	if decided > 0 {
		a.Decided = time.UnixMilli(decided)
	}
	return a, json.Unmarshal(why, &a.Why)
}
