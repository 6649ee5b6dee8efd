package record

import (
	"bytes"
	"encoding/json"

	"golang.org/x/mod/sumdb/tlog"

	"capd/database"
)

// trims are what a record says of its entries that were removed because of their age, or because there were too many. Who has
// no key cannot remove the oldest entries in the same way: it counts only if a checkpoint has it.
type trims struct {
	first   int64            // the number of the first entry that is there
	leaves  map[int64][]byte // the hashes of entries of removed blocks, by block
	entries []Numbered       // that say what was removed
}

const selectAllLeaves = "SELECT block, hashes FROM leaves"

// load reads what is there of removed entries.
func (t *trims) load(r *database.Rows) error {
	if err := r.Row(selectFirst).Scan(&t.first); err != nil {
		return err
	}
	t.leaves = map[int64][]byte{}
	rows, err := r.Query(selectAllLeaves)
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		var block int64
		var hashes []byte
		if err := rows.Scan(&block, &hashes); err != nil {
			return err
		}
		if len(hashes) == blockSize*tlog.HashSize {
			t.leaves[block] = hashes
		}
	}
	return rows.Err()
}

var trimmedWord = []byte(`"kind":"` + Trimmed.String() + `"`)

// note looks whether an entry says that others were removed.
func (t *trims) note(s stored) {
	if !bytes.Contains(s.body[:min(len(s.body), 64)], trimmedWord) {
		return
	}
	e := Numbered{Number: s.seq}
	if json.Unmarshal(s.body, &e.Entry) == nil && e.Kind == Trimmed {
		t.entries = append(t.entries, e)
	}
}

// before returns the number before which entries may be missing. The newest checkpoint has signed entries.
func (t *trims) before(signed int64) (before int64) {
	for _, e := range t.entries {
		if e.Number < signed {
			before = max(before, e.Before)
		}
	}
	return before
}

// trimmed takes the blocks of which no entry is there.
func (v *verifier) trimmed() {
	for v.at()+blockSize <= v.trims.first {
		if leaves, ok := v.trims.leaves[v.at()>>blockLevel]; ok {
			for ; len(leaves) > 0; leaves = leaves[tlog.HashSize:] {
				h := tlog.Hash(leaves[:tlog.HashSize])
				v.take(&h)
			}
			continue
		}
		v.whole()
	}
}

// whole takes a block of which only the hash is there.
func (v *verifier) whole() {
	from, to := v.at(), v.at()+blockSize
	h, ok := v.kept[from>>blockLevel]
	if !ok {
		v.report.wrong("the hash of entries %d to %d is missing", from, to-1)
		v.hole = true
	}
	v.put(h)
	for len(v.points) > 0 && v.points[0].size < to {
		v.report.wrong("entries %d to %d were removed, and what %s is compared with", from, to-1, v.points[0].when())
		v.points = v.points[1:]
	}
	v.compare()
}

// missed reports the oldest entries if they are missing without a reason.
func (v *verifier) missed() {
	first := v.trims.first &^ (blockSize - 1)
	if before := v.trims.before(v.report.Signed); before < first {
		v.report.wrong("%s", missingText(before, first-1))
	}
}
