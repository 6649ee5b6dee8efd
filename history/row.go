// Package history keeps what changes displaced, so that they can be undone: a row of the host's database for each change of one
// place, written beside the record's entries, and the content on a shelf. It plans what undoes some of them, and makes that through a
// Dir.
package history

import (
	"database/sql"
	"encoding/json"
	"strconv"
	"strings"

	"capd/database"
	"capd/vfs"
)

// State is what is at a place. The zero State is nothing.
type State struct {
	Kind     vfs.Kind `json:"k,omitempty"`
	Size     int64    `json:"s,omitempty"` // of a file, in bytes
	Modified int64    `json:"m,omitempty"` // ms; 0 if it is not known
	Exec     bool     `json:"x,omitempty"`
	Target   string   `json:"t,omitempty"` // of a link
	Version  string   `json:"v,omitempty"` // of a file, if it is known
	Until    int64    `json:"u,omitempty"` // ms; of a file of which only that is known: it was last written by then
	Identity string   `json:"i,omitempty"` // of a directory, if it is known
}

// Absent reports whether nothing is there.
func (s State) Absent() bool { return s.Kind == vfs.Other }

// Row is a change of one place.
type Row struct {
	ID      int64 // the number of the change in the record
	Part    int   // which of its places, if it changes many; they are undone from the last on
	Entry   int64 // the first ID of what was done together
	Holders []int64
	AtMs    int64
	Turn    string
	Op      string // as package membrane names it
	Path    string // from the top of the host's tree
	To      string // of a rename
	Outside bool   // it reached into another guest's tree
	Was     State  // at its place before
	Now     State  // there afterwards; what it should be until it has ended
	Done    bool   // it has ended
	Kept    string // the name on the shelf of what Was; "" for none
	Bytes   int64  // that are kept
	Undoes  bool   // it is a part of an undo
	Undone  int64  // the entry that undid it; 0 for none
	Late    bool   // Now was looked at after the change; not kept
	Short   bool   // an older change of its turn is not kept any more
}

// Place is where Was and Now are.
func (r *Row) Place() string {
	if r.To != "" {
		return r.To
	}
	return r.Path
}

// Lost reports whether the row cannot be undone because what it displaced is not kept.
func (r *Row) Lost() bool {
	return r.whole() || r.Op == copied || r.Was.Kind == vfs.FileKind && r.Kept == "" && r.Op != attributes
}

// whole reports whether r is a change of many paths as older hosts noted it: as one, of which nothing is kept.
func (r *Row) whole() bool { return r.Op == together && r.Was.Absent() && r.Now.Absent() }

// Top is the root grant in whose bound it counts.
func (r *Row) Top() int64 { return r.Holders[len(r.Holders)-1] }

// By reports whether it was made through the grant with this id, or through one that was shared from it.
func (r *Row) By(id int64) bool {
	for _, h := range r.Holders {
		if h == id {
			return true
		}
	}
	return false
}

const columns = `SELECT id, part, entry, grants, at, turn, op, path, target, outside, was, coalesce(now, plan), now IS NOT NULL, kept, bytes, undoes, undone, short FROM journal `

func holdersText(all []int64) string {
	var b strings.Builder
	b.WriteByte(',')
	for _, id := range all {
		b.WriteString(strconv.FormatInt(id, 10))
		b.WriteByte(',')
	}
	return b.String()
}

func scan(rows *database.Rows, text string, args ...any) (all []*Row, err error) {
	found, err := rows.Query(text, args...)
	if err != nil {
		return nil, err
	}
	defer found.Close()
	for found.Next() {
		r := &Row{}
		var holders, was, now string
		var path, target []byte
		var kept sql.NullString
		var undone sql.NullInt64
		err := found.Scan(&r.ID, &r.Part, &r.Entry, &holders, &r.AtMs, &r.Turn, &r.Op, &path, &target, &r.Outside, &was, &now, &r.Done, &kept, &r.Bytes, &r.Undoes, &undone, &r.Short)
		if err != nil {
			return nil, err
		}
		for id := range strings.SplitSeq(strings.Trim(holders, ","), ",") {
			n, err := strconv.ParseInt(id, 10, 64)
			if err != nil {
				return nil, vfs.Errorf(vfs.Internal, "the history is damaged")
			}
			r.Holders = append(r.Holders, n)
		}
		r.Path, r.To, r.Kept, r.Undone = string(path), string(target), kept.String, undone.Int64
		if err := json.Unmarshal([]byte(was), &r.Was); err != nil {
			return nil, err
		}
		if err := json.Unmarshal([]byte(now), &r.Now); err != nil {
			return nil, err
		}
		all = append(all, r)
	}
	return all, found.Err()
}

func text(s State) string {
	b, _ := json.Marshal(s) // it has only texts and numbers
	return string(b)
}
