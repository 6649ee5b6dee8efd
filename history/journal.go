package history

import (
	"cmp"
	"context"
	"math"
	"sync"
	"time"

	"capd/database"
	"capd/shelf"
	"capd/vfs"
)

// Bounds say how much is kept. A zero is the default.
type Bounds struct {
	Bytes   int64         // of a root grant and its shares: 256 MiB
	Changes int64         // of these: 1,000
	Age     time.Duration // 24 hours
	All     int64         // bytes of all grants together: 2 GiB
}

func (b Bounds) complete() Bounds {
	return Bounds{cmp.Or(b.Bytes, 256<<20), cmp.Or(b.Changes, 1000), cmp.Or(b.Age, 24*time.Hour), cmp.Or(b.All, 2<<30)}
}

// Options configure a Journal. The zero value suits most hosts.
type Options struct {
	Bounds Bounds
	Logf   func(string, ...any) // tells the operator what is not kept any more. Nil drops it
	Now    func() time.Time     // nil is time.Now
}

// Journal is the history of a host. It is safe for concurrent use.
type Journal struct {
	db     *database.DB
	shelf  *shelf.Shelf
	bounds Bounds
	logf   func(string, ...any)
	now    func() time.Time

	// The goroutine that writes the database alone uses these, and Open.
	kept   map[int64]*total // of each root grant
	all    int64            // bytes
	swept  time.Time
	oldest int64           // ms; nothing is older
	told   map[int64]bool  // whose eviction was told
	held   map[int64]total // up to how much nothing is evicted, since undos under way need all of it

	mu      sync.Mutex
	undoing map[int64]holds // entries
	copying map[int64]int64 // bytes that are copied for each root grant, and not counted yet
	crowded map[int64]bool  // for which of them there was no room, which was told
}

// holds count the undos under way that need an entry: as what they undo, or as what they have done.
type holds struct{ targets, own int }

type total struct{ bytes, changes int64 }

func (t *total) within(most total) bool { return t.bytes <= most.bytes && t.changes <= most.changes }

// Open opens the history in db, whose contents are on s. lasting reports whether what is stored at a path outlives the process: of
// anything else the history is forgotten.
func Open(db *database.DB, s *shelf.Shelf, lasting func(path string) bool, o Options) (*Journal, error) {
	j := &Journal{db: db, shelf: s, bounds: o.Bounds.complete(), logf: o.Logf, now: o.Now, kept: map[int64]*total{}, told: map[int64]bool{}, held: map[int64]total{},
		oldest: math.MaxInt64, undoing: map[int64]holds{}, copying: map[int64]int64{}, crowded: map[int64]bool{}}
	if j.now == nil {
		j.now = time.Now
	}
	if j.logf == nil {
		j.logf = func(string, ...any) {}
	}
	rows, err := j.read(context.Background(), columns+"ORDER BY id")
	if err != nil {
		return nil, err
	}
	names, gone := map[string]bool{}, map[int64]bool{}
	for _, r := range rows {
		if !lasting(r.Path) { // with all else that was changed together with it
			gone[r.ID] = true
		}
	}
	for _, r := range rows {
		if gone[r.ID] {
			continue
		}
		if r.Kept != "" {
			names[r.Kept] = true
		}
		if r.Done {
			j.count(r.Top(), r.Bytes, 1)
			j.oldest = min(j.oldest, r.AtMs)
		}
	}
	if err := j.dropAll(gone); vfs.CodeOf(err) == vfs.Busy { // a host begins on a full disk, too
		j.logf("capd: the history of what did not outlive the host is not removed: %s", vfs.Message(err))
	} else if err != nil {
		return nil, err
	}
	return j, s.Sweep(names)
}

// dropAll removes rows. It writes nothing if there are none.
func (j *Journal) dropAll(ids map[int64]bool) error {
	if len(ids) == 0 {
		return nil
	}
	return j.db.Write(func(tx *database.Tx) error {
		for id := range ids {
			if _, err := tx.Exec("DELETE FROM journal WHERE id=?", id); err != nil {
				return err
			}
		}
		return nil
	})
}

// Shelf is where contents are kept.
func (j *Journal) Shelf() *shelf.Shelf { return j.shelf }

func (j *Journal) count(top, bytes, changes int64) {
	t := j.kept[top]
	if t == nil {
		t = &total{}
		j.kept[top] = t
	}
	t.bytes, t.changes, j.all = t.bytes+bytes, t.changes+changes, j.all+bytes
	if t.changes == 0 {
		delete(j.kept, top)
	}
}

// counts is count in a transaction.
func (j *Journal) counts(tx *database.Tx, top, bytes, changes int64) {
	j.count(top, bytes, changes)
	tx.OnRollback(func() { j.count(top, -bytes, -changes) })
}

// Begin adds r, which is about to be made and has the number id. A change of many paths begins a row for each, with a Part of its own. r.Entry is 0 if it is an entry by itself.
func (j *Journal) Begin(tx *database.Tx, id int64, r *Row) error {
	var to, kept any
	if r.To != "" {
		to = []byte(r.To)
	}
	if r.Kept != "" {
		kept = r.Kept
	}
	_, err := tx.Exec(`INSERT INTO journal(id, part, entry, top, grants, at, turn, op, path, target, outside, was, plan, kept, bytes, undoes) VALUES(?,?,?,?,?,?,?,?,?,?,?,?,?,?,0,?)`,
		id, r.Part, cmp.Or(r.Entry, id), r.Top(), holdersText(r.Holders), r.AtMs, r.Turn, r.Op, []byte(r.Path), to, r.Outside, text(r.Was), text(r.Now), kept, r.Undoes)
	return err
}

// End notes that the place r of the change with this id was changed, and what is there now. bytes is how much is kept of what was there; if
// kept is not set, that is not kept. After the last place of a change comes Bound.
func (j *Journal) End(tx *database.Tx, id int64, r *Row, now State, bytes int64, kept bool) error {
	if !kept {
		bytes = 0
	}
	if (inPlace[r.Op] || r.Late) && now.Kind == vfs.FileKind { // it was looked at late: perhaps another change was there first
		where, args := touching(r.Place(), id)
		later, err := scan(&tx.Rows, columns+where, args...)
		if err != nil {
			return err
		}
		if len(later) > 0 {
			now = State{Kind: vfs.FileKind, Until: now.Until}
		}
	}
	if inPlace[r.Op] && now.Kind != vfs.FileKind {
		now = State{Kind: vfs.FileKind, Until: now.Until} // more is not known
	}
	_, err := tx.Exec(`UPDATE journal SET now=?, bytes=?, kept=iif(?, kept, NULL) WHERE id=? AND part=?`, text(now), bytes, kept, id, r.Part)
	if err == nil {
		j.counts(tx, r.Top(), bytes, 1)
		j.oldest = min(j.oldest, r.AtMs)
	}
	return err
}

// Bound forgets what is beyond the bounds of the root grant of r.
func (j *Journal) Bound(tx *database.Tx, r *Row) error { return j.bound(tx, r.Top()) }

// inPlace has the operations that write in place.
var inPlace = map[string]bool{"write": true, "append": true, "truncate": true}

// Drop forgets the change with this id, which was not made. The caller removes what it has put on the shelf.
func (j *Journal) Drop(tx *database.Tx, id int64) error {
	_, err := tx.Exec("DELETE FROM journal WHERE id=? AND now IS NULL", id)
	return err
}

// Settle notes how the change with this id ended, during which the last host was killed. made says whether it was made; known, whether that is
// certain. is is what is at its place now. What was to be displaced says more: a store gives it a name on the shelf just before it loses its own.
// Of a batch it says nothing: what was displaced was displaced for good even if the batch was taken back since, with what it had copied.
func (j *Journal) Settle(tx *database.Tx, id int64, batch, made, known bool, is State) error {
	rows, err := scan(&tx.Rows, columns+"WHERE id=?", id)
	if err != nil || len(rows) == 0 {
		return err
	}
	for _, r := range rows {
		if err := j.settle(tx, r, batch && known, made, known, is); err != nil {
			return err
		}
	}
	return j.Bound(tx, rows[0])
}

func (j *Journal) settle(tx *database.Tx, r *Row, sure, made, known bool, is State) error {
	size, names, ok := int64(0), uint64(0), false
	if r.Kept != "" {
		size, names, ok = j.shelf.Kept(r.Kept)
	}
	switch {
	case sure:
	case r.Kept != "" && shelf.IsLink(r.Kept):
		made = ok && names == 1
	case !known:
		made = true
	}
	if !made {
		if r.Kept != "" {
			tx.OnCommit(func() { j.shelf.Remove(r.Kept) })
		}
		return j.Drop(tx, r.ID)
	}
	if inPlace[r.Op] || r.Op == attributes {
		r.Now = is
		r.Now.Until = j.now().UnixMilli()
	}
	return j.End(tx, r.ID, r, r.Now, size, ok)
}

// Flush returns when everything that ended before is in the history, and what is too old is not.
func (j *Journal) Flush() error { return j.db.Write(j.expire) }

func (j *Journal) read(ctx context.Context, query string, args ...any) (all []*Row, err error) {
	err = j.db.Read(ctx, func(rows *database.Rows) error {
		all, err = scan(rows, query, args...)
		return err
	})
	return all, err
}
