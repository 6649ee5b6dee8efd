package database

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"capd/state"
	"capd/vfs"
)

func ok(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func is(t testing.TB, what string, err error, code vfs.Code) {
	t.Helper()
	if !errors.Is(err, code) {
		t.Fatalf("%s: %v, want %s", what, err, code)
	}
}

func opened(t testing.TB, d state.Dir, o Options) *DB {
	t.Helper()
	if o.Logf == nil {
		o.Logf = t.Logf
	}
	db, err := Open(d, o)
	ok(t, err)
	t.Cleanup(func() { db.Close() })
	return db
}

func put(key string, value any) func(*Tx) error {
	return func(tx *Tx) error {
		_, err := tx.Exec("INSERT INTO meta(key, value) VALUES(?, ?)", key, value)
		return err
	}
}

func get(db *DB, key string) (value string, err error) {
	err = db.Read(context.Background(), func(r *Rows) error { return r.Row("SELECT value FROM meta WHERE key=?", key).Scan(&value) })
	return value, err
}

// The versions up to 3.51.2 could damage a database when two connections began its log again at the same time
// (https://www.sqlite.org/wal.html, "the WAL-reset bug").
func TestVersionHasTheWALFix(t *testing.T) {
	db := Memory()
	defer db.Close()
	var version string
	ok(t, db.Read(t.Context(), func(r *Rows) error { return r.Row("SELECT sqlite_version()").Scan(&version) }))
	var major, minor, patch int
	_, err := fmt.Sscanf(version, "%d.%d.%d", &major, &minor, &patch)
	ok(t, err)
	if major != 3 || minor < 53 {
		t.Errorf("SQLite %s", version)
	}
}

func TestKept(t *testing.T) {
	d := state.Dir(t.TempDir())
	db := opened(t, d, Options{})
	ok(t, db.Write(put("a", "1")))
	db.Later(put("b", "2"))
	ok(t, db.Close())
	ok(t, db.Close())
	is(t, "a write afterwards", db.Write(put("c", "3")), vfs.Stale)
	_, err := get(db, "a")
	is(t, "a read afterwards", err, vfs.Stale)

	db = opened(t, d, Options{})
	for key, want := range map[string]string{"a": "1", "b": "2"} {
		got, err := get(db, key)
		if ok(t, err); got != want {
			t.Errorf("%s is %q, want %q", key, got, want)
		}
	}
	if _, err := get(db, "c"); !errors.Is(err, sql.ErrNoRows) {
		t.Error(err)
	}
	fi, err := os.Stat(d.Database())
	if ok(t, err); !state.Secret(fi) {
		t.Errorf("others can read it: %v", fi.Mode())
	}
}

// What a failed function has written is undone, and what others wrote in the same commit is not.
func TestFailedJobsAreUndoneAlone(t *testing.T) {
	own := errors.New("no")
	for name, db := range map[string]*DB{"file": opened(t, state.Dir(t.TempDir()), Options{}), "memory": Memory()} {
		ok(t, db.Write(put("there", "1")))
		begun := hold(db)
		undone := 0
		waits := []func() error{
			db.Begin(put("before", "1")),
			db.Begin(func(tx *Tx) error {
				tx.OnRollback(func() { undone++ })
				return errors.Join(put("half", "1")(tx), own)
			}),
			db.Begin(put("there", "2")),
			db.Begin(put("after", "1")),
		}
		begun()
		errs := make([]error, len(waits))
		for i, wait := range waits {
			errs[i] = wait()
		}
		if errs[0] != nil || errs[3] != nil || !errors.Is(errs[1], own) || vfs.CodeOf(errs[2]) != vfs.Internal {
			t.Fatalf("%s: %v", name, errs)
		}
		if undone == 0 {
			t.Errorf("%s: OnRollback was not called", name)
		}
		for key, there := range map[string]bool{"before": true, "after": true, "half": false} {
			if _, err := get(db, key); (err == nil) != there {
				t.Errorf("%s: %s: %v", name, key, err)
			}
		}
		if got, err := get(db, "there"); err != nil || got != "1" {
			t.Errorf("%s: there: %q, %v", name, got, err)
		}
	}
}

// hold makes the writing goroutine wait until release is called.
func hold(db *DB) (release func()) {
	held, let := make(chan struct{}), make(chan struct{})
	db.Begin(func(*Tx) error {
		select {
		case <-held: // it runs again
		default:
			close(held)
		}
		<-let
		return nil
	})
	<-held
	return func() { close(let) }
}

// Writers that wait at the same time share commits.
func TestGroup(t *testing.T) {
	var mu sync.Mutex
	commits := 0
	db := opened(t, state.Dir(t.TempDir()), Options{Step: func(at string) {
		mu.Lock()
		defer mu.Unlock()
		if at == "after" {
			commits++
		}
	}})
	const writers, each = 64, 20
	begun := hold(db)
	var all sync.WaitGroup
	for w := range writers {
		all.Go(func() {
			for i := range each {
				if err := db.Write(put(fmt.Sprintf("%d.%d", w, i), "1")); err != nil {
					t.Error(err)
				}
			}
		})
	}
	begun()
	all.Wait()
	var rows int
	ok(t, db.Read(t.Context(), func(r *Rows) error { return r.Row("SELECT count(*) FROM meta").Scan(&rows) }))
	mu.Lock()
	defer mu.Unlock()
	if rows != writers*each || commits > rows/4 {
		t.Errorf("%d writes in %d commits", rows, commits)
	}
	t.Logf("%d writes in %d commits", rows, commits)
}

// A read sees one moment, however much is written meanwhile, and does not stop writers.
func TestReadIsASnapshot(t *testing.T) {
	db := opened(t, state.Dir(t.TempDir()), Options{})
	count := func(r *Rows) (n int) {
		ok(t, r.Row("SELECT count(*) FROM meta").Scan(&n))
		return n
	}
	ok(t, db.Read(t.Context(), func(r *Rows) error {
		before := count(r)
		ok(t, db.Write(put("a", "1")))
		if got := count(r); got != before {
			t.Errorf("%d rows, then %d", before, got)
		}
		return nil
	}))
	if _, err := get(db, "a"); err != nil {
		t.Error(err)
	}
}

// What nobody waits for is written without another write.
func TestLaterIsWritten(t *testing.T) {
	written := make(chan struct{})
	db := opened(t, state.Dir(t.TempDir()), Options{Step: func(at string) {
		if at == "after" {
			close(written)
		}
	}})
	db.Later(put("a", "1"))
	select {
	case <-written:
	case <-time.After(30 * time.Second):
		t.Fatal("nothing was written")
	}
}

func TestNewerStateIsRefused(t *testing.T) {
	d := state.Dir(t.TempDir())
	db := opened(t, d, Options{})
	ok(t, db.Close())
	steps := append(migrations(), "CREATE TABLE newer(x INTEGER) STRICT")
	db, err := open(d, Options{}, steps)
	ok(t, err)
	ok(t, db.Close())
	_, err = Open(d, Options{})
	is(t, "a newer state", err, vfs.Unsupported)
	if want := fmt.Sprintf("(version %d, this one knows %d)", len(steps), len(steps)-1); !strings.Contains(err.Error(), want) {
		t.Errorf("%v, want %q in it", err, want)
	}
}

// Before its tables are changed, the state is copied. A migration that fails changes nothing.
func TestMigrateKeepsABackup(t *testing.T) {
	d := state.Dir(t.TempDir())
	db := opened(t, d, Options{})
	ok(t, db.Write(put("a", "1")))
	ok(t, db.Close())
	bad := append(migrations(), "CREATE TABLE newer(x INTEGER) STRICT; INSERT INTO nowhere VALUES(1)")
	if _, err := open(d, Options{}, bad); err == nil {
		t.Fatal("a broken migration is no error")
	}
	good := append(migrations(), "CREATE TABLE newer(x INTEGER) STRICT")
	db, err := open(d, Options{}, good)
	ok(t, err)
	got, err := get(db, "a")
	if ok(t, err); got != "1" {
		t.Errorf("a is %q", got)
	}
	ok(t, db.Close())

	kept := fmt.Sprintf("%s.before-%d", d.Database(), len(good))
	old := state.Dir(t.TempDir())
	ok(t, os.Rename(kept, old.Database()))
	db = opened(t, old, Options{})
	if _, err := get(db, "a"); err != nil {
		t.Errorf("the copy: %v", err)
	}
}

func TestUnusableFiles(t *testing.T) {
	for name, c := range map[string]struct {
		make func(path string) error
		code vfs.Code
		says string
	}{
		"garbage":     {func(p string) error { return os.WriteFile(p, []byte(strings.Repeat("no state ", 1000)), 0o600) }, vfs.Corrupt, "every locator ends"},
		"others read": {func(p string) error { return os.WriteFile(p, nil, 0o644) }, vfs.Denied, "chmod 600"},
		"a directory": {func(p string) error { return os.Mkdir(p, 0o700) }, vfs.Corrupt, "not a regular file"},
	} {
		d := state.Dir(t.TempDir())
		ok(t, c.make(d.Database()))
		before, err := os.ReadFile(d.Database())
		_, openErr := Open(d, Options{})
		is(t, name, openErr, c.code)
		if !strings.Contains(openErr.Error(), c.says) {
			t.Errorf("%s: %v, want %q in it", name, openErr, c.says)
		}
		if after, _ := os.ReadFile(d.Database()); err == nil && string(after) != string(before) {
			t.Errorf("%s: the file was changed", name)
		}
	}
}

func TestBackupBesideAWriter(t *testing.T) {
	d := state.Dir(t.TempDir())
	is(t, "no state", Backup(t.Context(), d, filepath.Join(t.TempDir(), "copy")), vfs.NotFound)
	_, err := Check(t.Context(), d)
	is(t, "no state", err, vfs.NotFound)
	db := opened(t, d, Options{})
	ok(t, db.Write(put("first", "1")))
	stop, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		for i := 0; ; i++ {
			select {
			case <-stop:
				return
			default:
				if err := db.Write(put(fmt.Sprint(i), "1")); err != nil {
					t.Error(err)
				}
			}
		}
	}()
	copied := state.Dir(t.TempDir())
	err = Backup(t.Context(), d, copied.Database())
	again := Backup(t.Context(), d, copied.Database())
	report, checkErr := Check(t.Context(), d)
	close(stop)
	<-ended
	ok(t, err)
	ok(t, checkErr)
	is(t, "over a file", again, vfs.Exists)
	if report.Version != len(migrations()) || len(report.Problems) > 0 {
		t.Errorf("the state beside its writer: %+v", report)
	}
	report, err = Check(t.Context(), copied)
	if ok(t, err); len(report.Problems) > 0 {
		t.Errorf("the copy: %+v", report)
	}
	if _, err := get(opened(t, copied, Options{}), "first"); err != nil {
		t.Errorf("the copy: %v", err)
	}
}

// Check finds what is wrong with a state.
func TestCheckFinds(t *testing.T) {
	d := state.Dir(t.TempDir())
	db := opened(t, d, Options{})
	ok(t, db.Write(func(tx *Tx) error {
		for i := range 2000 {
			if err := put(fmt.Sprintf("key %d", i), strings.Repeat("x", 100))(tx); err != nil {
				return err
			}
		}
		return nil
	}))
	ok(t, db.Close())
	pool, err := sql.Open("sqlite", locate(d.Database(), writing))
	ok(t, err)
	for _, text := range []string{"PRAGMA foreign_keys=off", "INSERT INTO gates(grant_id, path, refuses) VALUES(77, x'', 1)", "PRAGMA wal_checkpoint(TRUNCATE)"} {
		_, err := pool.Exec(text)
		ok(t, err)
	}
	ok(t, pool.Close())
	report, err := Check(t.Context(), d)
	if ok(t, err); len(report.Problems) != 1 || !strings.Contains(report.Problems[0], "gates refers to a row of grants") {
		t.Errorf("a row without its grant: %q", report.Problems)
	}
	content, err := os.ReadFile(d.Database())
	ok(t, err)
	for i := len(content) - 40000; i < len(content)-39000; i++ {
		content[i] ^= 0x55
	}
	ok(t, os.WriteFile(d.Database(), content, 0o600))
	report, err = Check(t.Context(), d)
	if err == nil && len(report.Problems) < 2 || err != nil && !errors.Is(err, vfs.Corrupt) {
		t.Errorf("bytes that changed: %q, %v", report.Problems, err)
	}
}

func BenchmarkOpen(b *testing.B) {
	for b.Loop() {
		db, err := Open(state.Dir(b.TempDir()), Options{})
		ok(b, err)
		ok(b, db.Close())
	}
}

func BenchmarkMemory(b *testing.B) {
	for b.Loop() {
		ok(b, Memory().Close())
	}
}

func BenchmarkWrite(b *testing.B) {
	db := opened(b, state.Dir(b.TempDir()), Options{})
	for i := 0; b.Loop(); i++ {
		ok(b, db.Write(put(fmt.Sprint(i), "1")))
	}
}

// TestFirstState: a state of the first version opens, and what was in it is there.
func TestFirstState(t *testing.T) {
	d := state.Dir(t.TempDir())
	db, err := open(d, Options{}, migrations()[:1])
	ok(t, err)
	ok(t, db.Write(func(tx *Tx) error {
		for _, statement := range []string{
			"INSERT INTO grants(subject, name, digest, path, mounts, rights, source, made) VALUES('agent-run:a', 'a', x'01', x'', '{}', 255, 'serve', 1)",
			"INSERT INTO invites(digest, subject, made) VALUES(x'02', 'agent-run:a', 1)",
			"INSERT INTO asks(id, binding, kind, grant_id, subject, op, path, to_path, why, size, asked) VALUES(x'03', x'04', 'change', 1, 'a', 'write', x'', x'', '[]', 0, 1)",
		} {
			if _, err := tx.Exec(statement); err != nil {
				return err
			}
		}
		return nil
	}))
	ok(t, db.Close())
	db = opened(t, d, Options{})
	for _, table := range []string{"grants", "invites", "asks"} {
		var rows int
		ok(t, db.Read(t.Context(), func(r *Rows) error { return r.Row("SELECT count(*) FROM " + table).Scan(&rows) }))
		if rows != 1 {
			t.Errorf("%s has %d rows", table, rows)
		}
	}
	if _, err := os.Stat(d.Database() + ".before-2"); err != nil {
		t.Errorf("the copy of the old state: %v", err)
	}
}
