package database

import (
	"context"
	"database/sql"
)

// conn is a connection to the file, with the statements that were prepared on it.
type conn struct {
	*sql.Conn
	prepared map[string]*sql.Stmt
}

// prepare returns a prepared statement. It is prepared once, so a text is one of a few constants.
func (c *conn) prepare(text string) (*sql.Stmt, error) {
	if s := c.prepared[text]; s != nil {
		return s, nil
	}
	s, err := c.PrepareContext(context.Background(), text)
	if err == nil {
		c.prepared[text] = s
	}
	return s, err
}

// Close closes the statements too: SQLite keeps the files open while there is one.
func (c *conn) Close() error {
	for _, s := range c.prepared {
		_ = s.Close()
	}
	return c.Conn.Close()
}

func (c *conn) exec(text string, args ...any) (sql.Result, error) {
	s, err := c.prepare(text)
	if err != nil {
		return nil, err
	}
	return s.Exec(args...)
}

func (c *conn) number(text string) (n int64, err error) {
	return n, c.QueryRowContext(context.Background(), text).Scan(&n)
}

// Rows reads a snapshot of the state. It is valid in the function that it is given to, for one goroutine.
type Rows struct{ c *conn }

// Query runs a query. The caller closes what it returns before it runs the same text again. The text is a
// constant: it is prepared once and kept. Paths are passed as bytes, and never as nil.
func (r *Rows) Query(text string, args ...any) (*sql.Rows, error) {
	s, err := r.c.prepare(text)
	if err != nil {
		return nil, err
	}
	return s.Query(args...)
}

// Row is Query for one row. Its Scan answers [sql.ErrNoRows] if there is none.
func (r *Rows) Row(text string, args ...any) *sql.Row {
	s, err := r.c.prepare(text)
	if err != nil {
		return r.c.QueryRowContext(context.Background(), text, args...) // for its error
	}
	return s.QueryRow(args...)
}

// Read runs do on a snapshot of the state. At most 4 run at once; others wait, until ctx ends. A read that is long
// keeps the log from beginning again, so what has many rows is read in pages of a few thousand, a Read each.
func (d *DB) Read(ctx context.Context, do func(*Rows) error) error {
	if d.readers == nil { // in memory
		return d.Write(func(tx *Tx) error { return do(&tx.Rows) })
	}
	d.gate.RLock()
	defer d.gate.RUnlock()
	if d.closed {
		return errClosed
	}
	var c *conn
	select {
	case c = <-d.readers:
	case <-ctx.Done():
		return ctx.Err()
	}
	defer func() { d.readers <- c }()
	if c == nil {
		opened, err := d.open()
		if err != nil {
			return hidden(err)
		}
		c = opened
	}
	return c.snapshot(do)
}

// snapshot runs do in a transaction that only reads.
func (c *conn) snapshot(do func(*Rows) error) error {
	if _, err := c.exec("BEGIN"); err != nil {
		return hidden(err)
	}
	defer func() { _, _ = c.exec("ROLLBACK") }()
	return hidden(do(&Rows{c}))
}
