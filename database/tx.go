package database

import (
	"database/sql"
	"errors"
)

// Tx is a transaction that several callers share. It is valid in the function that it is given to.
type Tx struct {
	Rows
	changed   bool  // since the present job began
	broken    error // nothing more can be done in this transaction
	rollbacks []func()
	commits   []func()
}

// Exec runs a statement that changes something. A statement that fails changes nothing. The text is a constant: it is
// prepared once and kept.
func (t *Tx) Exec(text string, args ...any) (sql.Result, error) {
	if t.broken != nil {
		return nil, t.broken
	}
	r, err := t.c.exec(text, args...)
	switch {
	case err == nil:
		t.changed = true
	case !refused(err):
		t.broken = err
	}
	return r, err
}

// OnRollback calls f if the transaction is not committed. f restores what the caller keeps in memory. The last f is
// called first.
func (t *Tx) OnRollback(f func()) { t.rollbacks = append(t.rollbacks, f) }

// OnCommit calls f when the transaction is on disk, in the goroutine that writes. f must not wait.
func (t *Tx) OnCommit(f func()) { t.commits = append(t.commits, f) }

// errRerun says that a job has failed after it had changed something.
var errRerun = errors.New("a job failed halfway")

// begin begins a transaction.
func begin(c *conn) (*Tx, error) {
	if _, err := c.exec("BEGIN IMMEDIATE"); err != nil {
		return nil, err
	}
	return &Tx{Rows: Rows{c}}, nil
}

// run runs one job. It returns an error if the transaction has to be rolled back.
func (t *Tx) run(j *job) error {
	t.changed = false
	j.err = j.do(t)
	switch {
	case t.broken != nil:
		return t.broken
	case j.err != nil && t.changed:
		return errRerun
	}
	return nil
}

// rollback undoes everything in t.
func (t *Tx) rollback() {
	_, _ = t.c.exec("ROLLBACK") // an error says that SQLite has done it already
	for i := len(t.rollbacks) - 1; i >= 0; i-- {
		t.rollbacks[i]()
	}
}
