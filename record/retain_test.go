package record

import (
	"fmt"
	"os"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"capd/database"
	"capd/state"
	"capd/vfs/vfstest/check"
)

// trimmed returns a state whose record has lost its first entries because there were too many, and a checkpoint that was given
// in the middle of what was removed.
func trimmed(t *testing.T) (d state.Dir, given string) {
	t.Helper()
	d = state.Dir(t.TempDir())
	db, l := opened(t, d)
	fill(t, db, l, 300)
	given, err := l.Checkpoint(true)
	check.OK(t, err)
	fill(t, db, l, 5000)
	endAll(t, db, l, -1)
	closed(t, db, l)
	db, err = database.Open(d, database.Options{Logf: t.Logf})
	check.OK(t, err)
	l, err = Open(db, Options{Key: key, Retain: Retention{Size: 100_000}})
	check.OK(t, err)
	check.OK(t, l.Close()) // what tend removes at its beginning is removed
	check.OK(t, db.Close())
	return d, given
}

// endAll ends every change but one.
func endAll(t testing.TB, db *database.DB, l *Log, but int64) {
	t.Helper()
	check.OK(t, db.Write(func(tx *database.Tx) error {
		for id := range l.open {
			if id == but {
				continue
			}
			if err := l.Append(tx, Entry{Kind: Ended, Of: id, Result: Done}); err != nil {
				return err
			}
		}
		return nil
	}))
}

// What was removed because there was too much leaves enough to verify the rest, and every given checkpoint. What somebody else
// removes shows.
func TestRetentionKeepsVerify(t *testing.T) {
	d, given := trimmed(t)
	r := verified(t, d, given)
	if len(r.Problems) > 0 || r.First < 5000 || r.First%blockSize != 0 || r.Entries < blockSize || r.Checkpoints < 3 {
		t.Fatalf("%+v", r)
	}
	first := r.First
	sound, err := os.ReadFile(d.Database())
	check.OK(t, err)
	wal, err := os.ReadFile(d.Database() + "-wal")
	check.OK(t, err)
	for what, c := range map[string]struct{ sql, says string }{
		"more removed":        {fmt.Sprintf("DELETE FROM record WHERE seq < %d", first+blockSize), fmt.Sprintf("entries %d to %d are missing", first, first+blockSize-1)},
		"the first removed":   {fmt.Sprintf("DELETE FROM record WHERE seq = %d", first), fmt.Sprintf("entry %d is missing", first)},
		"a hash of a block":   {"UPDATE blocks SET hash = zeroblob(32) WHERE level = 8 AND n = 3", "the first"},
		"no hash of a block":  {"DELETE FROM blocks WHERE level = 8 AND n = 3", "the hash of entries 768 to 1023 is missing"},
		"a hash of an entry":  {"UPDATE leaves SET hashes = zeroblob(8192)", "the first 301 entries are not those of"},
		"no hashes of them":   {"DELETE FROM leaves", "entries 256 to 511 were removed, and what the given checkpoint is compared with"},
		"the removal, undone": {"UPDATE record SET body = CAST(replace(body, 'trimmed', 'started') AS BLOB)", "are not those of the checkpoint"},
	} {
		t.Run(what, func(t *testing.T) {
			d := state.Dir(t.TempDir())
			check.OK(t, state.WriteFile(d.Database(), sound))
			check.OK(t, state.WriteFile(d.Database()+"-wal", wal))
			tamper(t, d, []string{c.sql})
			says(t, verified(t, d, given), c.says)
		})
	}
	db, l := opened(t, d) // the next start goes on
	if l.first != first || l.bytes <= 0 || l.bytes > 100_000 {
		t.Errorf("it begins at %d and has %d bytes", l.first, l.bytes)
	}
	fill(t, db, l, 1000)
	closed(t, db, l)
	if r := verified(t, d, given); len(r.Problems) > 0 || r.First != first {
		t.Errorf("%+v", r)
	}
}

// An entry that says that others were removed counts only if the host has signed it.
func TestUnsignedTrim(t *testing.T) {
	d := state.Dir(t.TempDir())
	db, l := opened(t, d)
	fill(t, db, l, 600)
	check.OK(t, l.Write(Entry{Kind: Trimmed, Before: 256}))
	check.OK(t, db.Close()) // without a checkpoint
	tamper(t, d, []string{"DELETE FROM record WHERE seq < 256"})
	if r := verified(t, d, ""); !slices.Contains(r.Problems, "entries 0 to 255 are missing") {
		t.Errorf("found %q", r.Problems)
	}
}

// Entries are removed when they are too old, but not while a change has not ended, and never the newest.
func TestRetentionByAge(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db := database.Memory()
		defer db.Close()
		l, err := Open(db, Options{Key: key, Retain: Retention{Keep: time.Hour}})
		check.OK(t, err)
		defer func() { check.OK(t, l.Close()) }()
		old := l.Intend(Entry{Op: "mkdir", Path: "d"})
		check.OK(t, old.Wait())
		fill(t, db, l, 1000)
		endAll(t, db, l, old.ID())
		first := func() (n int64) {
			check.OK(t, db.Read(t.Context(), func(r *database.Rows) error { return r.Row(selectFirst).Scan(&n) }))
			return n
		}
		time.Sleep(59 * time.Minute)
		if n := first(); n != 0 {
			t.Errorf("after 59 minutes it begins at %d", n)
		}
		time.Sleep(5 * time.Minute)
		if n := first(); n != 0 {
			t.Errorf("while a change has not ended it begins at %d", n)
		}
		old.End(Outcome{})
		time.Sleep(2 * time.Minute)
		if n := first(); n < 1000 || n > 2001-blockSize {
			t.Errorf("after an hour it begins at %d", n)
		}
	})
}
