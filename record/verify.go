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

// Report is what [Verify] has found.
type Report struct {
	Entries     int64    `json:"entries"`
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
	key, err := note.NewVerifier(o.Key)
	if err != nil {
		return r, vfs.Errorf(vfs.Invalid, "this is not the key of a record; capd audit key prints it")
	}
	v := verifier{by: note.VerifierList(key), report: &r, kept: map[int64]tlog.Hash{}, supers: map[int64]tlog.Hash{}}
	if o.Since != "" {
		since, err := parse(o.Since, v.by)
		if err != nil {
			return r, vfs.At("the checkpoint", err)
		}
		v.points = append(v.points, since)
	}
	if err := from.Read(ctx, v.begin); err != nil {
		return r, err
	}
	if err := v.all(ctx, from); err != nil {
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
	err = v.signatures(r)
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
func (v *verifier) all(ctx context.Context, from Source) error {
	type result struct {
		part []stored
		err  error
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	pages := make(chan result, 2)
	go func() {
		defer close(pages)
		for next := int64(0); next < v.size; {
			part, err := readPage(ctx, from, next, page)
			select {
			case pages <- result{part, err}:
			case <-ctx.Done():
				return
			}
			if err != nil || len(part) == 0 {
				return
			}
			next = part[len(part)-1].seq + 1
		}
	}()
	for p := range pages {
		if p.err != nil {
			return p.err
		}
		for i, h := range hashes(p.part) {
			if seq := p.part[i].seq; seq < v.size { // others were added since
				v.entry(seq, h)
			}
		}
	}
	return ctx.Err()
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
