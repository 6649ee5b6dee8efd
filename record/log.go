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
)

// Log is the record of a host that runs. It is safe for concurrent use.
type Log struct {
	db   *database.DB
	sign *signer // nil signs nothing
	now  func() time.Time
	logf func(string, ...any)

	// The goroutine that writes the database alone uses these.
	tree   frontier
	in     *database.Tx   // the transaction that has the newest entry
	open   map[int64]bool // intents that have not ended
	signed int64          // how many entries the newest checkpoint has

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
}

// Open begins to write the record in db. One Log at a time writes it. It answers corrupt if the end of the record is
// damaged.
func Open(db *database.DB, o Options) (*Log, error) {
	l := &Log{db: db, now: o.Now, logf: o.Logf, open: map[int64]bool{}, stop: make(chan struct{})}
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
	if err := l.Write(Entry{Kind: Started}); err != nil {
		return nil, err
	}
	if _, err := l.Checkpoint(false); err != nil {
		return nil, err
	}
	l.stopped.Go(l.signEachMinute)
	return l, nil
}

// Close signs what was written. The caller closes the database afterwards.
func (l *Log) Close() error {
	close(l.stop)
	l.stopped.Wait()
	_, err := l.Checkpoint(false)
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
	e.Format, e.At = 1, l.now().UnixMilli()
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
	insertBlock = "INSERT INTO blocks(level, n, hash) VALUES(?, ?, ?)"
)

// add adds e, whose JSON is body. It runs in the goroutine that writes.
func (l *Log) add(tx *database.Tx, e *Entry, body []byte) (seq int64, err error) {
	if tx != l.in {
		was := l.tree.clone()
		tx.OnRollback(func() { l.tree, l.in = was, nil })
		tx.OnCommit(l.news.tell)
		l.in = tx
	}
	seq = l.tree.size
	if _, err := tx.Exec(insertEntry, seq, e.At, int(e.Kind), e.grant(), body); err != nil {
		return 0, err
	}
	for _, b := range l.tree.add(0, tlog.RecordHash(body)) {
		if _, err := tx.Exec(insertBlock, b.level, b.n, b.hash[:]); err != nil {
			return 0, err
		}
	}
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
