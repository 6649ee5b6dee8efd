package approval

import (
	"cmp"
	"context"
	"database/sql"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"capd/database"
	"capd/operator"
	"capd/record"
	"capd/vfs"
)

// insert writes q, the request about a, and deletes gone, if that is not nil.
func (d *Desk) insert(a *Asked, q, gone *ask) error {
	why, err := json.Marshal(a.Why)
	if err != nil {
		return vfs.Hide(err)
	}
	text := ""
	if a.Diff != nil {
		text = clip(a.Diff(), operator.MaxAskDiff)
	}
	return d.db.Write(func(tx *database.Tx) error {
		if gone != nil {
			if err := deleteAsk(tx, gone.id); err != nil {
				return err
			}
		}
		e := q.entry(record.Asked)
		e.Why, e.Size = a.Why, a.Size
		if !a.Digest.IsZero() {
			e.Version = a.Digest.String()
		}
		if err := d.note(tx, e); err != nil {
			return err
		}
		if a.Request != nil {
			return insertRequest(tx, a, q)
		}
		_, err := tx.Exec(`INSERT INTO asks(id, binding, kind, grant_id, share_id, subject, op, path, to_path, found, found_to, digest, size, exec, why, diff, asked)
			VALUES(?, ?, 'change', ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`,
			q.id[:], q.binding[:], a.Root, a.Grant, a.Guest, a.Operation, []byte(a.Path), []byte(a.To), found(a.Found), found(a.FoundTo),
			a.Digest[:], a.Size, a.Exec, string(why), text, q.asked.UnixMilli())
		return err
	})
}

// entry returns what the record says about q.
func (q *ask) entry(k record.Kind) record.Entry {
	e := record.Entry{Kind: k, Grants: q.grants, Op: q.place.operation, Path: record.Path(q.place.path), To: record.Path(q.place.to), Ask: q.id.String()}
	if r := q.request; r != nil {
		e.Subject, e.Rights = string(r.Subject), r.Access.String()
	}
	return e
}

// note writes e to the record, if there is one.
func (d *Desk) note(tx *database.Tx, e record.Entry) error {
	if d.log == nil {
		return nil
	}
	return d.log.Append(tx, e)
}

// clip cuts text to n bytes.
func clip(text string, n int) string {
	if len(text) <= n {
		return text
	}
	const cut = "\n(the rest is left out)\n"
	return text[:n-len(cut)] + cut
}

// found is a condition as a row has it.
func found(c vfs.If) []byte {
	if c.Absent || c.Is.IsZero() {
		return []byte{}
	}
	return c.Is[:]
}

func deleteAsk(tx *database.Tx, id ID) error {
	_, err := tx.Exec(`DELETE FROM asks WHERE id = ? AND decision IS NULL`, id[:])
	return err
}

// decide writes a decision about q, and s if it is not nil.
func (d *Desk) decide(tx *database.Tx, q *ask, v operator.Verdict, by string, at time.Time, s *standing) error {
	id := q.id
	e := q.entry(record.Decided)
	e.Answer, e.By, e.Said = string(v.Answer), by, v.Reason
	if given := q.given(v); given != 0 {
		e.Rights = given.String()
	}
	var root int64
	err := tx.Row(`SELECT ifnull(grant_id, 0) FROM asks WHERE id = ? AND decision IS NULL`, id[:]).Scan(&root)
	if errors.Is(err, sql.ErrNoRows) {
		return errNoAsk
	}
	if err != nil {
		return err
	}
	if s != nil {
		text, err := json.Marshal(s.rule(root))
		if err != nil {
			return err
		}
		made, err := tx.Exec(`INSERT INTO rules(source, rule, ask, until, made) VALUES(?, ?, ?, ?, ?)`,
			"ask "+id.String()[:8], string(text), id[:], s.until.UnixMilli(), at.UnixMilli())
		if err == nil {
			s.id, err = made.LastInsertId()
		}
		if err != nil {
			return err
		}
	}
	if err := d.note(tx, e); err != nil {
		return err
	}
	_, err = tx.Exec(`UPDATE asks SET decision = ?, answer = ?, by = ?, decided = ?, given = ?, lasts = ? WHERE id = ?`,
		string(v.Answer), v.Reason, by, at.UnixMilli(), q.given(v), v.For.Milliseconds(), id[:])
	return err
}

// spend writes that a yes was used.
func spend(tx *database.Tx, id ID, at time.Time) error {
	_, err := tx.Exec(`UPDATE asks SET spent = ? WHERE id = ?`, at.UnixMilli(), id[:])
	return err
}

// tidy drops what is too old at a time.
func tidy(tx *database.Tx, now time.Time) error {
	ago := func(d time.Duration) int64 { return now.Add(-d).UnixMilli() }
	_, err := tx.Exec(`UPDATE asks SET diff = NULL WHERE diff IS NOT NULL AND decided <= ?`, ago(Holds))
	if err == nil {
		_, err = tx.Exec(`DELETE FROM asks WHERE decision IS NULL AND asked <= ? OR decided <= ?`, ago(kept), ago(history))
	}
	if err == nil {
		_, err = tx.Exec(`UPDATE rules SET ended = ? WHERE ask IS NOT NULL AND ended IS NULL AND until <= ?`, now.UnixMilli(), now.UnixMilli())
	}
	return err
}

// load reads what waits and what still holds.
func (d *Desk) load(ctx context.Context) error {
	now := time.Now()
	if err := d.db.Write(func(tx *database.Tx) error { return tidy(tx, now) }); err != nil && vfs.CodeOf(err) != vfs.Busy { // the disk may be full, and what is over is left out below
		return err
	}
	return d.db.Read(ctx, func(r *database.Rows) error {
		if err := d.loadAsks(r, now); err != nil {
			return err
		}
		return eachStanding(r, now, func(root int64, s *standing, _ []byte) { d.standing[root] = append(d.standing[root], s) })
	})
}

func (d *Desk) loadAsks(r *database.Rows, now time.Time) error {
	rows, err := r.Query(`SELECT id, binding, ifnull(grant_id, 0), ifnull(share_id, 0), subject, op, path, to_path, asked, ifnull(decision, ''), ifnull(answer, ''), ifnull(by, ''), ifnull(decided, 0),
		ifnull(want, ''), ifnull(given, 0), ifnull(lasts, 0) FROM asks
		WHERE kind IN ('change', 'request') AND (decision IS NULL OR decided > ? AND (kind = 'request' OR spent IS NULL AND decision != 'always'))`, now.Add(-Holds).UnixMilli())
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		q := newAsk(&Asked{})
		var id, bound, path, to []byte
		var asked, decided, lasts int64
		var want string
		if err := rows.Scan(&id, &bound, &q.root, &q.grant, &q.guest, &q.place.operation, &path, &to, &asked, &q.verdict.Answer, &q.verdict.Reason, &q.by, &decided,
			&want, &q.verdict.Rights, &lasts); err != nil {
			return err
		}
		q.verdict.For = time.Duration(lasts) * time.Millisecond
		if q.request, err = requestOf(want); err != nil {
			return err
		}
		if len(id) != len(q.id) || len(bound) != len(q.binding) {
			return vfs.Errorf(vfs.Corrupt, "a request for an approval has an id of %d bytes", len(id))
		}
		q.id, q.binding, q.place.path, q.place.to = ID(id), binding(bound), string(path), string(to)
		if q.request == nil {
			q.grants = []record.Holder{{ID: grantID(q.grant), Name: q.guest}}
		}
		q.asked = time.UnixMilli(asked)
		close(q.written)
		if decided > 0 {
			q.decided = time.UnixMilli(decided)
			close(q.over)
		}
		d.add(q)
	}
	return rows.Err()
}

// rule is a standing approval as a row of rules has it.
type rule struct {
	Grant     int64  `json:"grant"`
	Operation string `json:"operation"`
	Path      []byte `json:"path"`
	To        []byte `json:"to,omitempty"`
	Pattern   string `json:"pattern,omitempty"`
}

func (s *standing) rule(root int64) rule {
	return rule{root, s.operation, []byte(s.path), []byte(s.to), s.text}
}

// eachStanding calls f for every standing approval that holds, with the request that it answered.
func eachStanding(r *database.Rows, now time.Time, f func(root int64, s *standing, ask []byte)) error {
	rows, err := r.Query(`SELECT id, rule, ask, until, ifnull((SELECT by FROM asks WHERE asks.id = rules.ask), '') FROM rules WHERE ask IS NOT NULL AND ended IS NULL AND until > ? ORDER BY id`, now.UnixMilli())
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		var id, until int64
		var text, ask []byte
		var by string
		var of rule
		if err := rows.Scan(&id, &text, &ask, &until, &by); err != nil {
			return err
		}
		err := json.Unmarshal(text, &of)
		s := &standing{id: id, place: place{of.Operation, string(of.Path), string(of.To)}, text: of.Pattern, until: time.UnixMilli(until), by: by}
		if err == nil {
			err = s.compile()
		}
		if err != nil {
			return vfs.Errorf(vfs.Corrupt, "approval %d cannot be read: %v", id, err)
		}
		f(of.Grant, s, ask)
	}
	return rows.Err()
}

// end writes that a standing approval has ended.
func end(tx *database.Tx, id int64, at time.Time) error {
	done, err := tx.Exec(`UPDATE rules SET ended = ? WHERE id = ? AND ask IS NOT NULL AND ended IS NULL`, at.UnixMilli(), id)
	if err != nil {
		return err
	}
	if n, err := done.RowsAffected(); err != nil || n == 0 {
		return vfs.Errorf(vfs.NotFound, "no approval with that number holds; approvals() lists those that do")
	}
	return nil
}

// noteEnd adds to the record that the approval with that number was ended. It has ended, whatever is wrong with the record.
func (d *Desk) noteEnd(tx *database.Tx, id int64) {
	var text, ask []byte
	var share int64
	var of rule
	e := record.Entry{Kind: record.Decided, Answer: "ended", Grants: make([]record.Holder, 1)}
	err := tx.Row(`SELECT r.rule, r.ask, ifnull(a.share_id, 0), ifnull(a.subject, '') FROM rules r LEFT JOIN asks a ON a.id = r.ask WHERE r.id = ?`, id).Scan(&text, &ask, &share, &e.Grants[0].Name)
	if err == nil {
		err = json.Unmarshal(text, &of)
	}
	if err != nil {
		return
	}
	e.Grants[0].ID, e.Ask = grantID(cmp.Or(share, of.Grant)), hex.EncodeToString(ask)
	e.Op, e.Path, e.To = of.Operation, record.Path(of.Path), record.Path(of.To)
	_ = d.note(tx, e)
}

// grantID is the id of a grant as grants lists it.
func grantID(n int64) string { return fmt.Sprintf("g%d", n) }
