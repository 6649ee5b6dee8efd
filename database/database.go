// Package database keeps a host's durable state in one SQLite file of the state directory: grants, mounts, rules, and
// the record of what was changed.
//
// One goroutine writes. It gathers what several callers want to write and commits it together, so that many writers
// cost few waits for the disk. What a call wrote is on disk when the call returns.
//
// # Concurrency
//
// A [DB] is safe for concurrent use. The process that has it open holds the lock of the state directory.
// [Check] and [Backup] can run beside it, in any process.
package database

import (
	"context"
	"database/sql"
	"errors"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"

	"modernc.org/sqlite"

	"capd/state"
	"capd/vfs"
)

// DB is the durable state of a host.
type DB struct {
	pool    *sql.DB
	writer  *conn
	readers chan *conn // the reading connections that are free; nil opens one. A nil channel: the writer reads
	log     wal
	reserve reserve
	aside   aside
	options Options

	gate   sync.RWMutex // held to send to jobs
	closed bool
	jobs   chan *job
	done   chan struct{} // closed when the writing goroutine has ended

	later   backlog
	commits commits
	failed  atomic.Pointer[error]
}

// Options configures a DB. The zero value suits most programs.
type Options struct {
	// Logf logs what no caller is told. Nil drops it.
	Logf func(format string, args ...any)
	// Step is called before and after each commit, with "before" and "after". It is for tests that stop a process
	// there.
	Step func(at string)
}

// readers is how many reads run at the same time.
const readers = 4

// Open opens the state in d, which it makes if there is none. The caller holds d's lock. Open answers unsupported for
// the state of a newer capd, corrupt for a file that is damaged or something else, and denied for one that other users
// can read.
func Open(d state.Dir, o Options) (*DB, error) { return open(d, o, migrations()) }

func open(d state.Dir, o Options, steps []string) (*DB, error) {
	path := d.Database()
	if err := prepare(path); err != nil {
		return nil, err
	}
	useOFDLocks()
	db, err := connect(locate(path, writing), o)
	if err != nil {
		return nil, said(path, err)
	}
	if err := migrate(db.writer, path, steps); err != nil {
		return nil, errors.Join(said(path, err), db.pool.Close())
	}
	db.readers = make(chan *conn, readers)
	for range readers {
		db.readers <- nil
	}
	db.log, db.aside.path = wal{keep: true}, path+".withdrawn"
	if db.reserve.path = path + ".reserve"; !db.reserve.fill() {
		db.options.Logf("capd: there is no room on the disk of the host's state: nothing changes until there is; reads and revokes go on")
	}
	go db.write()
	return db, nil
}

// Memory returns an empty DB that keeps nothing. It is for tests, and for a host whose state is not kept.
func Memory() *DB {
	db, err := connect(":memory:?_pragma=foreign_keys(1)", Options{})
	if err == nil {
		err = migrate(db.writer, "", migrations())
	}
	if err != nil {
		panic(err) // there is no file that could be wrong
	}
	go db.write()
	return db
}

func connect(name string, o Options) (*DB, error) {
	if o.Logf == nil {
		o.Logf = func(string, ...any) {}
	}
	if o.Step == nil {
		o.Step = func(string) {}
	}
	pool, err := sql.Open("sqlite", name)
	if err != nil {
		return nil, err
	}
	db := &DB{pool: pool, options: o, jobs: make(chan *job, maxBatch), done: make(chan struct{})}
	db.later.due = make(chan struct{}, 1)
	if db.writer, err = db.open(); err != nil {
		return nil, errors.Join(err, pool.Close())
	}
	return db, nil
}

// Close writes what [DB.Later] has queued, waits for the calls under way, and closes the file. Afterwards
// calls answer stale.
func (d *DB) Close() error {
	d.gate.Lock()
	again := d.closed
	d.closed = true
	if !again {
		close(d.jobs)
	}
	d.gate.Unlock()
	<-d.done
	if again {
		return nil
	}
	errs := []error{d.writer.Close()}
	for range cap(d.readers) {
		if c := <-d.readers; c != nil {
			errs = append(errs, c.Close())
		}
	}
	return errors.Join(append(errs, d.pool.Close())...)
}

// prepare makes an empty file that only this user can read, unless there is one, which it checks.
func prepare(path string) error {
	fi, err := os.Lstat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		err = state.WriteFile(path, nil)
	case err != nil:
	case !fi.Mode().IsRegular():
		return vfs.Errorf(vfs.Corrupt, "%s is not a regular file; move it away", path)
	case !state.Secret(fi):
		return vfs.Errorf(vfs.Denied, "%s belongs to somebody else, or others can read it (chmod 600)", path)
	}
	if err != nil {
		return vfs.Errorf(vfs.Denied, "the host's state cannot be kept in %s: %v", path, state.Reason(err))
	}
	return nil
}

// How a file is opened.
const (
	writing = "rw"
	reading = "ro"
)

// locate returns the name of the database at path for SQLite. The writing goroutine moves what is in the log to the
// file itself, so that this does not happen in somebody's commit.
func locate(path, mode string) string {
	u := url.URL{Scheme: "file", OmitHost: true, Path: filepath.ToSlash(path)}
	if !filepath.IsAbs(u.Path) && u.Path[0] != '/' { // a Windows drive
		u.Path = "/" + u.Path
	}
	q := url.Values{"mode": {mode}, "_pragma": {"busy_timeout(10000)", "foreign_keys(1)"}}
	if mode == writing {
		q["_pragma"] = append(q["_pragma"], "journal_mode(wal)", "synchronous(full)", "wal_autocheckpoint(0)")
	}
	u.RawQuery = q.Encode()
	return u.String()
}

// useOFDLocks makes SQLite use locks of open files where the system has them. Other locks end when anything in this
// process closes the file.
var useOFDLocks = sync.OnceFunc(func() { _, _ = sqlite.OFDLocking(true) })

// open opens one more connection.
func (d *DB) open() (*conn, error) {
	c, err := d.pool.Conn(context.Background())
	if err != nil {
		return nil, err
	}
	err = c.Raw(func(driver any) error { // the log stays when the last connection is closed, so it need not grow again
		_, err := driver.(sqlite.FileControl).FileControlPersistWAL("main", 1)
		return err
	})
	if err != nil && code(err) != codeNotFound { // in memory there is no log
		return nil, errors.Join(err, c.Close())
	}
	return &conn{Conn: c, prepared: map[string]*sql.Stmt{}}, nil
}
