// Package record keeps the record of a host: who changed what, when, and how that ended. Entries are only ever added.
// A Merkle tree over them (RFC 6962, as golang.org/x/mod/sumdb/tlog has it) shows when one is missing, was changed, or
// is in another place. Signed checkpoints of the tree show when the end is missing. [Verify] checks both.
//
// The hash of an entry is that of its JSON as it lies in the database: SHA-256 of a zero byte and the text.
package record

import (
	"crypto/ed25519"
	"encoding/json"
	"sync"
	"time"

	"golang.org/x/mod/sumdb/tlog"

	"capd/database"
	"capd/vfs"
)

// Log is the record of a host that runs. It is safe for concurrent use.
type Log struct {
	db   *database.DB
	sign *signer // nil signs nothing
	now  func() time.Time
	logf func(string, ...any)

	// The goroutine that writes the database alone uses these.
	tree   frontier
	first  int64          // the number of the first entry that is still there
	bytes  int64          // that the entries have which are there
	in     *database.Tx   // the transaction that has the newest entry
	open   map[int64]bool // intents that have not ended
	signed int64          // how many entries the newest checkpoint has

	retain    Retention
	full      chan struct{} // capacity 1: there are more bytes than are to be kept
	stats     stats
	news      news
	unsettled []Numbered
	stop      chan struct{}
	stopped   sync.WaitGroup
}

// Options configures a Log. The zero value suits tests.
type Options struct {
	Key  ed25519.PrivateKey   // signs checkpoints. Nil makes none
	Logf func(string, ...any) // logs what no caller is told. Nil drops it
	Now  func() time.Time     // Nil is time.Now
	// Retain says how long entries are kept. The zero value is the default.
	Retain Retention
}

// Open begins to write the record in db. One Log at a time writes it. It answers corrupt if the end of the record is
// damaged.
func Open(db *database.DB, o Options) (*Log, error) {
	l := &Log{db: db, now: o.Now, logf: o.Logf, open: map[int64]bool{}, retain: o.Retain.complete(),
		stats: stats{shown: Stats{Added: map[Kind]int64{}, Denied: map[vfs.Code]int64{}}}, full: make(chan struct{}, 1), stop: make(chan struct{})}
	if l.now == nil {
		l.now = time.Now
	}
	if l.logf == nil {
		l.logf = func(string, ...any) {}
	}
	var err error
	if o.Key != nil {
		if l.sign, err = newSigner(o.Key); err != nil {
			return nil, err
		}
	}
	if err := l.load(); err != nil {
		return nil, err
	}
	if err := l.soon(Entry{Kind: Started}); err != nil {
		return nil, err
	}
	if _, err := l.Checkpoint(false); err != nil && !full(err) {
		return nil, err
	}
	l.stopped.Go(l.tend)
	return l, nil
}

// Close signs what was written. The caller closes the database afterwards.
func (l *Log) Close() error {
	close(l.stop)
	l.stopped.Wait()
	_, err := l.Checkpoint(false)
	if full(err) { // the next start signs
		return nil
	}
	return err
}

// full reports whether err says that the disk of the state is full.
func full(err error) bool { return vfs.CodeOf(err) == vfs.Busy }

// soon adds an entry, and returns when it is on disk. If the disk is full it is written when there is room, before any later entry: a
// host starts nevertheless, for reads and revokes.
func (l *Log) soon(e Entry) error { return l.soonWith(nil, e) }

// soonWith is soon, and writes more in the same transaction if also is not nil.
func (l *Log) soonWith(also func(*database.Tx) error, e Entry) error {
	add := l.adder(e)
	do := func(tx *database.Tx) error {
		if _, err := add(tx); err != nil || also == nil {
			return err
		}
		return also(tx)
	}
	err := l.db.Write(do)
	if full(err) {
		l.db.Later(do)
		return nil
	}
	return err
}

// Write adds an entry, and returns when it is on disk.
func (l *Log) Write(e Entry) error {
	add := l.adder(e)
	return l.db.Write(func(tx *database.Tx) error {
		_, err := add(tx)
		return err
	})
}

// Append adds an entry in a transaction of the caller's, so that both are written or none.
func (l *Log) Append(tx *database.Tx, e Entry) error {
	_, err := l.adder(e)(tx)
	return err
}

// adder returns a function that adds e in a transaction, and returns the entry's number.
func (l *Log) adder(e Entry) func(*database.Tx) (int64, error) {
	e.Format = 1
	if e.At == 0 {
		e.At = l.now().UnixMilli()
	}
	body, err := json.Marshal(e)
	return func(tx *database.Tx) (int64, error) {
		if err != nil {
			return 0, err
		}
		return l.add(tx, &e, body)
	}
}

const (
	insertEntry = "INSERT INTO record(seq, at, kind, grant_id, body) VALUES(?, ?, ?, ?, ?)"
	dropEntry   = "DELETE FROM record WHERE seq=?"
	insertBlock = "INSERT INTO blocks(level, n, hash) VALUES(?, ?, ?)"
)

// grow adds the hash of an entry to the tree, or nothing if it fails.
func (l *Log) grow(tx *database.Tx, h tlog.Hash) error {
	var was frontier
	if (l.tree.size+1)%blockSize == 0 { // otherwise nothing is written
		was = l.tree.clone()
	}
	for _, b := range l.tree.add(0, h) {
		if _, err := tx.Exec(insertBlock, b.level, b.n, b.hash[:]); err != nil {
			l.tree = was
			return err
		}
	}
	return nil
}

// add adds e, whose JSON is body. If it fails nothing has changed. It runs in the goroutine that writes.
func (l *Log) add(tx *database.Tx, e *Entry, body []byte) (seq int64, err error) {
	if tx != l.in {
		tree, first, bytes := l.tree.clone(), l.first, l.bytes
		tx.OnRollback(func() { l.tree, l.first, l.bytes, l.in = tree, first, bytes, nil; l.stats.fresh = l.stats.fresh[:0] })
		tx.OnCommit(l.committed)
		l.in = tx
	}
	seq = l.tree.size
	if _, err := tx.Exec(insertEntry, seq, e.At, int(e.Kind), e.grant(), body); err != nil {
		return 0, err
	}
	if err := l.grow(tx, tlog.RecordHash(body)); err != nil {
		_, _ = tx.Exec(dropEntry, seq) // the caller may go on with its transaction
		return 0, err
	}
	if l.bytes += int64(len(body)); l.retain.tooMuch(l.bytes) && seq-l.first >= 2*blockSize {
		l.tellFull()
	}
	l.stats.fresh = append(l.stats.fresh, added{e.Kind, e.Code, e.Times})
	switch e.Kind {
	case Intended:
		l.open[seq] = true
		tx.OnRollback(func() { delete(l.open, seq) })
	case Ended, Settled:
		delete(l.open, e.Of)
		tx.OnRollback(func() { l.open[e.Of] = true })
	}
	return seq, nil
}
