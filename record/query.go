package record

import (
	"context"
	"encoding/json"
	"iter"
	"slices"
	"strings"

	"capd/database"
)

// Source is a database that a record is read from.
type Source interface {
	Read(ctx context.Context, do func(*database.Rows) error) error
}

// Numbered is an entry with its number, which counts from 0.
type Numbered struct {
	Number int64 `json:"n"`
	Entry
}

// Query says which entries to read. The zero value reads all. How a change ended is read with its intent.
type Query struct {
	From  int64  // the first number
	Since int64  // the earliest time, in milliseconds since the epoch
	Guest string // the name or the id of a grant; what was shared from it counts as well
	Path  string // a path and everything below it; "" for all
	Kinds []Kind // none for all

	// Wait is called where the record ends now. After nil, what was added meanwhile is read too. A nil Wait ends there.
	Wait func(context.Context) error
}

// page is how many entries are read at once. A read that is long keeps the database's log from beginning again.
const page = 4096

// Entries yields the entries that q asks for, the oldest first. It ends with an error that it meets.
func Entries(ctx context.Context, from Source, q Query) iter.Seq2[Numbered, error] {
	return func(yield func(Numbered, error) bool) {
		changes := map[int64]bool{} // that match and have not ended
		for next := q.From; ; {
			part, err := readPage(ctx, from, next, page)
			for i := 0; i < len(part) && err == nil; i++ {
				var e Numbered
				if e, err = part[i].entry(); err == nil && q.matches(&e, changes) && !yield(e, nil) {
					return
				}
			}
			if len(part) > 0 {
				next = part[len(part)-1].seq + 1
			}
			if err == nil && len(part) < page {
				if q.Wait == nil {
					return
				}
				err = q.Wait(ctx)
			}
			if err != nil {
				yield(Numbered{}, err)
				return
			}
		}
	}
}

// stored is an entry as it lies in the database.
type stored struct {
	seq  int64
	body []byte
}

func (s stored) entry() (e Numbered, err error) {
	e.Number = s.seq
	if err = json.Unmarshal(s.body, &e.Entry); err != nil {
		err = errDamaged
	}
	return e, err
}

const selectPage = "SELECT seq, body FROM record WHERE seq >= ? ORDER BY seq LIMIT ?"

// readPage reads at most max entries from the number next on.
func readPage(ctx context.Context, from Source, next, max int64) (part []stored, err error) {
	err = from.Read(ctx, func(r *database.Rows) (err error) {
		part, err = pageOf(r, next, max)
		return err
	})
	return part, err
}

func pageOf(r *database.Rows, next, max int64) ([]stored, error) {
	rows, err := r.Query(selectPage, next, max)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	part := make([]stored, 0, min(max, page))
	for rows.Next() {
		var s stored
		if err := rows.Scan(&s.seq, &s.body); err != nil {
			return nil, err
		}
		part = append(part, s)
	}
	return part, rows.Err()
}

// matches reports whether e is asked for. changes are those that are and have not ended.
func (q *Query) matches(e *Numbered, changes map[int64]bool) bool {
	kind := len(q.Kinds) == 0 || slices.Contains(q.Kinds, e.Kind)
	if q.Guest == "" && q.Path == "" {
		return kind && e.At >= q.Since
	}
	if changes[e.Of] {
		delete(changes, e.Of)
		return kind
	}
	ok := e.At >= q.Since &&
		(q.Guest == "" || slices.ContainsFunc(e.Grants, func(h Holder) bool { return h.ID == q.Guest || h.Name == q.Guest })) &&
		(q.Path == "" || slices.ContainsFunc(e.paths(), func(p string) bool { return below(p, q.Path) }))
	if ok && e.Kind == Intended {
		changes[e.Number] = true
	}
	return ok && kind
}

// below reports whether path is at or below dir.
func below(path, dir string) bool {
	rest, ok := strings.CutPrefix(path, dir)
	return ok && (rest == "" || rest[0] == '/')
}
