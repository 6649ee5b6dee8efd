package record

import (
	"sync"

	"capd/database"
	"capd/vfs"
)

// Intent is a change that is about to be made.
type Intent struct {
	log    *Log
	id     int64
	wait   func() error
	grants []Holder
}

// Intend adds the entry of a change that is about to be made. The change is not made before Wait has returned.
func (l *Log) Intend(e Entry) *Intent { return l.IntendWith(e, nil) }

// IntendWith is Intend, and writes more in the same transaction: also, if it is not nil, gets the number of the intent.
func (l *Log) IntendWith(e Entry, also func(tx *database.Tx, id int64) error) *Intent {
	e.Kind = Intended
	i := &Intent{log: l, grants: e.Grants}
	add := l.adder(e)
	i.wait = sync.OnceValue(l.db.Begin(func(tx *database.Tx) (err error) {
		if i.id, err = add(tx); err != nil || also == nil {
			return err
		}
		return also(tx, i.id)
	}))
	return i
}

// Wait returns when the intent is on disk. After an error the change must not be made.
func (i *Intent) Wait() error { return i.wait() }

// ID returns the number of the intent, which is that of the change. Wait has returned without an error.
func (i *Intent) ID() int64 { return i.id }

// Outcome is how a change ended.
type Outcome struct {
	Bytes, Nodes int64  // by how much the store grew
	Span         *Span  // of writes in place
	Version      string // of the file after them; "" if it is not known
	Size         int64  // of that file, in bytes
	Err          error  // nil: it was made

	Also func(*database.Tx) error // writes more in the transaction that adds the outcome; nil writes nothing
}

// End adds how the change ended. Nobody waits for it: it is on disk within about a second. If the host is killed before,
// the next start finds out how it ended.
func (i *Intent) End(o Outcome) {
	e := Entry{Kind: Ended, Of: i.id, Grants: i.grants[:min(1, len(i.grants))], Result: Done, Bytes: o.Bytes, Nodes: o.Nodes, Span: o.Span, Version: o.Version, Size: o.Size}
	if o.Err != nil {
		e.Result = Failed
		e.Code, e.Said = vfs.CodeOf(o.Err), o.Err.Error()
	}
	add := i.log.adder(e)
	i.log.db.Later(func(tx *database.Tx) error {
		if _, err := add(tx); err != nil || o.Also == nil {
			return err
		}
		return o.Also(tx)
	})
}
