package record

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"sync"

	"golang.org/x/mod/sumdb/note"
	"golang.org/x/mod/sumdb/tlog"

	"capd/database"
	"capd/vfs"
)

// VerifyOptions says what a record is compared with.
type VerifyOptions struct {
	Key   string // the line that [Verifier] returns
	Since string // a checkpoint that was kept elsewhere; "" for none
}

// parse reads the key and the checkpoint, which may be nil.
func (o VerifyOptions) parse() (by note.Verifiers, since *checkpoint, err error) {
	key, err := note.NewVerifier(o.Key)
	if err != nil {
		return nil, nil, vfs.Errorf(vfs.Invalid, "this is not the key of a record; capd audit key prints it")
	}
	by = note.VerifierList(key)
	if o.Since == "" {
		return by, nil, nil
	}
	c, err := parse(o.Since, by)
	if err != nil {
		return nil, nil, vfs.At("the checkpoint", err)
	}
	return by, &c, nil
}

// Report is what [Verify] has found.
type Report struct {
	Entries     int64    `json:"entries"`     // that are there
	First       int64    `json:"first"`       // the number of the first; those before it were removed because of their age
	Checkpoints int      `json:"checkpoints"` // that agree with the entries
	Signed      int64    `json:"signed"`      // how many entries the newest of them has
	Problems    []string `json:"problems"`    // none in a sound record
}

// maxProblems is how many problems a Report has. There may be more then.
const maxProblems = 100

func (r *Report) wrong(format string, args ...any) {
	if len(r.Problems) < maxProblems {
		r.Problems = append(r.Problems, fmt.Sprintf(format, args...))
	}
}

// Verify reads the whole record in from. It finds entries that are missing, were changed, or are in another place, and
// an end that was cut off behind a checkpoint. Somebody who has the key can hide all that, or put an old record back, but
// not from Since. Verify works beside a running host. It answers invalid for a Since that the key did not sign.
func Verify(ctx context.Context, from Source, o VerifyOptions) (r Report, err error) {
	r.Problems = []string{} // in JSON a list
	v := verifier{report: &r, kept: map[int64]tlog.Hash{}, supers: map[int64]tlog.Hash{}}
	by, since, err := o.parse()
	if err != nil {
		return r, err
	}
	if v.by = by; since != nil {
		v.points = append(v.points, *since)
	}
	err = from.Read(ctx, func(rows *database.Rows) error { // one snapshot: old entries may be removed meanwhile
		if err := v.begin(rows); err != nil {
			return err
		}
		return v.all(ctx, rows)
	})
	if err != nil {
		return r, err
	}
	v.end()
	return r, nil
}

// verifier compares the entries of a record with what is kept of its tree.
type verifier struct {
	by     note.Verifiers
	report *Report
	size   int64               // of the record, when it began
	points []checkpoint        // that are still to be compared, the smallest first
	kept   map[int64]tlog.Hash // of blocks, by number
	supers map[int64]tlog.Hash // the same of superLevel

	tree frontier // of whole blocks
	last frontier // of the entries behind those
	hole bool     // one of them is missing

	trims trims
}

const (
	selectBlocks      = "SELECT level, n, hash FROM blocks"
	selectCheckpoints = "SELECT size, note, at FROM checkpoints ORDER BY size"
)

// begin reads everything but the entries.
func (v *verifier) begin(r *database.Rows) error {
	if err := r.Row(selectSize).Scan(&v.size); err != nil {
		return err
	}
	rows, err := r.Query(selectBlocks)
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		var level int
		var n int64
		var hash []byte
		if err := rows.Scan(&level, &n, &hash); err != nil {
			return err
		}
		switch {
		case len(hash) != tlog.HashSize: // as if it were missing
		case level == blockLevel:
			v.kept[n] = tlog.Hash(hash)
		case level == superLevel:
			v.supers[n] = tlog.Hash(hash)
		}
	}
	if err := rows.Err(); err != nil {
		return err
	}
	err = cmp.Or(v.signatures(r), v.trims.load(r))
	slices.SortFunc(v.points, func(a, b checkpoint) int { return cmp.Compare(a.size, b.size) })
	return err
}

// signatures checks those of the checkpoints.
func (v *verifier) signatures(r *database.Rows) error {
	rows, err := r.Query(selectCheckpoints)
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		var size, at int64
		var text string
		if err := rows.Scan(&size, &text, &at); err != nil {
			return err
		}
		c, err := parse(text, v.by)
		if err == nil && c.size != size {
			err = errNoCheckpoint
		}
		if c.at = at; err != nil {
			v.report.wrong("the checkpoint with %d entries: %v", size, err)
			continue
		}
		v.points = append(v.points, c)
	}
	return rows.Err()
}

// all reads all entries. While one page is hashed the next is read.
func (v *verifier) all(ctx context.Context, r *database.Rows) (err error) {
	v.report.First = v.trims.first
	v.trimmed()
	pages := make(chan []stored, 2)
	var reading sync.WaitGroup
	reading.Go(func() {
		defer close(pages)
		err = v.read(ctx, r, pages)
	})
	for part := range pages {
		for i, h := range hashes(part) {
			v.entry(part[i].seq, h)
			v.trims.note(part[i])
		}
	}
	reading.Wait()
	return err
}

// read reads all pages.
func (v *verifier) read(ctx context.Context, r *database.Rows, pages chan<- []stored) error {
	for next := int64(0); next < v.size; {
		part, err := pageOf(r, next, page)
		if err = cmp.Or(err, ctx.Err()); err != nil || len(part) == 0 {
			return err
		}
		next = part[len(part)-1].seq + 1
		pages <- part
	}
	return nil
}

// hashes hashes entries, on two processors.
func hashes(part []stored) []tlog.Hash {
	all := make([]tlog.Hash, len(part))
	some := func(from, to int) {
		for i := from; i < to; i++ {
			all[i] = tlog.RecordHash(part[i].body)
		}
	}
	var half sync.WaitGroup
	half.Go(func() { some(0, len(part)/2) })
	some(len(part)/2, len(part))
	half.Wait()
	return all
}

// entry takes the entry with the number seq, behind those that it has.
func (v *verifier) entry(seq int64, h tlog.Hash) {
	if missing := seq - v.at(); missing > 0 {
		v.report.wrong("%s", missingText(v.at(), seq-1))
		for v.at() < seq {
			v.take(nil)
		}
	}
	v.report.Entries++
	v.take(&h)
}

func missingText(from, to int64) string {
	if from == to {
		return fmt.Sprintf("entry %d is missing", from)
	}
	return fmt.Sprintf("entries %d to %d are missing", from, to)
}

// at is the number of the next entry.
func (v *verifier) at() int64 { return v.tree.size + v.last.size }

// take takes the next entry; nil if it is missing.
func (v *verifier) take(h *tlog.Hash) {
	if h == nil {
		v.hole, h = true, new(tlog.Hash)
	}
	v.last.add(0, *h)
	if v.last.size == blockSize {
		v.block()
	}
	v.compare()
}

// block takes a whole block. From there on it uses the hash that is kept, so that one wrong entry is reported once.
func (v *verifier) block() {
	n, h := v.tree.size>>blockLevel, v.last.tops[0].hash
	kept, ok := v.kept[n]
	switch {
	case !ok:
		v.report.wrong("the hash of entries %d to %d is missing", n*blockSize, (n+1)*blockSize-1)
	case kept != h:
		if !v.hole {
			v.report.wrong("one of the entries %d to %d was changed, or is in another place", n*blockSize, (n+1)*blockSize-1)
		}
		h = kept
	}
	v.last, v.hole = frontier{}, v.hole && !ok
	v.put(h)
}

// put adds the hash of a whole block.
func (v *verifier) put(h tlog.Hash) {
	for _, b := range v.tree.add(blockLevel, h) {
		if b.level == superLevel && v.supers[b.n] != b.hash {
			v.report.wrong("the hash of entries %d to %d is wrong or missing", b.n<<superLevel, (b.n+1)<<superLevel-1)
		}
	}
}

// compare compares the checkpoints that end here.
func (v *verifier) compare() {
	for len(v.points) > 0 && v.points[0].size == v.at() {
		c := v.points[0]
		v.points = v.points[1:]
		if t := v.tree.with(&v.last); v.hole || t.root() != c.root {
			v.report.wrong("the first %d entries are not those of %s", c.size, c.when())
			continue
		}
		v.report.Checkpoints++
		v.report.Signed = c.size
	}
}

// end reports what comes after the last entry.
func (v *verifier) end() {
	v.missed()
	for _, c := range v.points {
		v.report.wrong("there are %d entries, and %s has %d: the end was cut off, or an old record was put back", v.at(), c.when(), c.size)
	}
	for n := range v.kept {
		if n >= v.tree.size>>blockLevel {
			v.report.wrong("entries up to %d are missing at the end", (n+1)*blockSize-1)
			return
		}
	}
}
