package record

import (
	"crypto/ed25519"
	"database/sql"
	"fmt"
	"os"
	"strings"
	"testing"

	"capd/database"
	"capd/state"
	"capd/vfs"
	"capd/vfs/vfstest/check"
)

// key signs the records of tests.
var key = ed25519.NewKeyFromSeed([]byte("the key of the records of tests."))

func keyLine(t testing.TB) string {
	t.Helper()
	line, err := Verifier(key.Public().(ed25519.PublicKey))
	check.OK(t, err)
	return line
}

// opened returns the database in d, and the record in it.
func opened(t testing.TB, d state.Dir) (*database.DB, *Log) {
	t.Helper()
	db, err := database.Open(d, database.Options{Logf: t.Logf})
	check.OK(t, err)
	l, err := Open(db, Options{Key: key, Logf: t.Logf})
	check.OK(t, err)
	return db, l
}

func closed(t testing.TB, db *database.DB, l *Log) {
	t.Helper()
	check.OK(t, l.Close())
	check.OK(t, db.Close())
}

// fill adds n entries.
func fill(t testing.TB, db *database.DB, l *Log, n int) {
	t.Helper()
	check.OK(t, db.Write(func(tx *database.Tx) error {
		for i := range n {
			e := Entry{Kind: Intended, Op: "replace", Path: Path(fmt.Sprintf("project/file %d", i)), Grants: []Holder{{"g1", "agent"}}}
			if err := l.Append(tx, e); err != nil {
				return err
			}
		}
		return nil
	}))
}

func verified(t testing.TB, d state.Dir, since string) Report {
	t.Helper()
	db, err := database.Open(d, database.Options{Logf: t.Logf})
	check.OK(t, err)
	defer db.Close()
	r, err := Verify(t.Context(), db, VerifyOptions{Key: keyLine(t), Since: since})
	check.OK(t, err)
	return r
}

// Verify finds whatever somebody without the key does to the record, and, with a checkpoint that was kept elsewhere, what
// somebody with the key does.
func TestVerifyFinds(t *testing.T) {
	d := state.Dir(t.TempDir())
	db, l := opened(t, d)
	fill(t, db, l, 700)
	check.OK(t, db.Close())
	old, err := os.ReadFile(d.Database())
	check.OK(t, err)
	wal, err := os.ReadFile(d.Database() + "-wal")
	check.OK(t, err)
	db, l = opened(t, d)
	fill(t, db, l, 300)
	given, err := l.Checkpoint(true)
	check.OK(t, err)
	fill(t, db, l, 10)
	closed(t, db, l)
	sound, err := os.ReadFile(d.Database())
	check.OK(t, err)
	soundWAL, err := os.ReadFile(d.Database() + "-wal")
	check.OK(t, err)

	const all = 1 + 700 + 1 + 300 + 10
	if r := verified(t, d, given); len(r.Problems) > 0 || r.Entries != all || r.Checkpoints != 3 || r.Signed != all {
		t.Fatalf("a sound record: %+v", r)
	}
	const swap = "UPDATE record SET body = (SELECT body FROM record AS other WHERE other.seq = %[1]d + %[2]d - record.seq) WHERE seq IN (%[1]d, %[2]d)"
	for what, c := range map[string]struct {
		sql   []string
		since string
		says  string
	}{
		"removed":                {[]string{"DELETE FROM record WHERE seq = 300"}, "", "entry 300 is missing"},
		"several removed":        {[]string{"DELETE FROM record WHERE seq BETWEEN 300 AND 600"}, "", "entries 300 to 600 are missing"},
		"the first removed":      {[]string{"DELETE FROM record WHERE seq = 0"}, "", "entry 0 is missing"},
		"changed":                {[]string{"UPDATE record SET body = CAST(replace(body, 'replace', 'remove') AS BLOB) WHERE seq = 300"}, "", "one of the entries 256 to 511 was changed"},
		"changed near the end":   {[]string{"UPDATE record SET body = CAST(replace(body, 'replace', 'remove') AS BLOB) WHERE seq = 1005"}, "", "the first 1012 entries are not those"},
		"changed with its hash":  {[]string{"UPDATE record SET body = CAST(replace(body, 'replace', 'remove') AS BLOB) WHERE seq = 300", "DELETE FROM blocks WHERE n = 1"}, "", "the hash of entries 256 to 511 is missing"},
		"swapped":                {[]string{fmt.Sprintf(swap, 300, 301)}, "", "one of the entries 256 to 511 was changed, or is in another place"},
		"swapped far":            {[]string{fmt.Sprintf(swap, 3, 900)}, "", "one of the entries 0 to 255"},
		"cut off":                {[]string{"DELETE FROM record WHERE seq >= 900"}, "", "there are 900 entries, and the checkpoint of"},
		"cut off, no checkpoint": {[]string{"DELETE FROM record WHERE seq >= 900", "DELETE FROM checkpoints", "DELETE FROM blocks WHERE n >= 3"}, given, "there are 900 entries, and the given checkpoint has 1002"},
		"another's checkpoint":   {[]string{"UPDATE checkpoints SET note = replace(note, 'capd/', 'capb/')"}, "", "not signed by the record's key"},
		"a checkpoint moved":     {[]string{"UPDATE checkpoints SET size = 77 WHERE given = 1"}, "", "the checkpoint with 77 entries"},
	} {
		t.Run(what, func(t *testing.T) {
			d := state.Dir(t.TempDir())
			check.OK(t, state.WriteFile(d.Database(), sound))
			check.OK(t, state.WriteFile(d.Database()+"-wal", soundWAL))
			tamper(t, d, c.sql)
			says(t, verified(t, d, c.since), c.says)
		})
	}
	t.Run("an old database", func(t *testing.T) {
		d := state.Dir(t.TempDir())
		check.OK(t, state.WriteFile(d.Database(), old))
		check.OK(t, state.WriteFile(d.Database()+"-wal", wal))
		if r := verified(t, d, ""); len(r.Problems) > 0 {
			t.Errorf("by itself it is sound: %q", r.Problems)
		}
		says(t, verified(t, d, given), "there are 701 entries, and the given checkpoint has 1002: the end was cut off, or an old record was put back")
		db, l := opened(t, d) // somebody goes on with it
		fill(t, db, l, 400)
		closed(t, db, l)
		says(t, verified(t, d, given), "the first 1002 entries are not those of the given checkpoint")
	})
}

func tamper(t *testing.T, d state.Dir, texts []string) {
	t.Helper()
	pool, err := sql.Open("sqlite", d.Database())
	check.OK(t, err)
	for _, text := range texts {
		_, err := pool.Exec(text)
		check.OK(t, err)
	}
	check.OK(t, pool.Close())
}

func says(t *testing.T, r Report, want string) {
	t.Helper()
	if len(r.Problems) == 0 || !strings.Contains(r.Problems[0], want) {
		t.Errorf("found %q, want %q", r.Problems, want)
	}
}

// What belongs to a newer or another record is no checkpoint of this one.
func TestVerifyRefuses(t *testing.T) {
	db := database.Memory()
	defer db.Close()
	l, err := Open(db, Options{Key: key})
	check.OK(t, err)
	given, err := l.Checkpoint(true)
	check.OK(t, err)
	for what, since := range map[string]string{"text": "text", "changed": strings.Replace(given, "\n1\n", "\n2\n", 1), "cut": given[:len(given)-9]} {
		_, err := Verify(t.Context(), db, VerifyOptions{Key: keyLine(t), Since: since})
		check.Is(t, what, err, vfs.Invalid)
	}
	_, err = Verify(t.Context(), db, VerifyOptions{Key: "no key"})
	check.Is(t, "no key", err, vfs.Invalid)
}

// TestAppendThatFails: an entry that cannot be added, in a transaction that goes on without it, leaves the record sound.
func TestAppendThatFails(t *testing.T) {
	d := state.Dir(t.TempDir())
	db, l := opened(t, d)
	fill(t, db, l, blockSize-2) // one entry is left until a block is whole
	planted := func(text string) {
		check.OK(t, db.Write(func(tx *database.Tx) error {
			_, err := tx.Exec(text)
			return err
		}))
	}
	planted("INSERT INTO blocks(level, n, hash) VALUES(8, 0, x'00')")
	check.OK(t, db.Write(func(tx *database.Tx) error {
		if err := l.Append(tx, Entry{Kind: Revoked}); err == nil {
			t.Error("it was added")
		}
		return nil
	}))
	planted("DELETE FROM blocks")
	fill(t, db, l, 2*blockSize)
	closed(t, db, l)
	r := verified(t, d, "")
	if len(r.Problems) > 0 || r.Entries != 3*blockSize-1 {
		t.Errorf("%d entries: %s", r.Entries, strings.Join(r.Problems, "; "))
	}
}
