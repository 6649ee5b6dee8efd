package database

import (
	"context"
	"database/sql"
	"errors"
	"sync"

	"capd/state"
	"capd/vfs"
)

// View is the durable state of a host, to be read beside it or without it. It is safe for concurrent use.
type View struct {
	pool *sql.DB
	mu   sync.Mutex // held to read
	c    *conn
}

// OpenView opens the state in d. It changes nothing. It answers notFound if there is none, and unsupported for the state
// of another version of capd: a host that starts brings an older one up to date.
func OpenView(ctx context.Context, d state.Dir) (*View, error) {
	if err := there(d); err != nil {
		return nil, err
	}
	useOFDLocks()
	pool, err := sql.Open("sqlite", locate(d.Database(), reading))
	if err != nil {
		return nil, said(d.Database(), err)
	}
	v := &View{pool: pool}
	if v.c, err = viewed(ctx, pool); err != nil {
		return nil, errors.Join(said(d.Database(), err), pool.Close())
	}
	return v, nil
}

func viewed(ctx context.Context, pool *sql.DB) (*conn, error) {
	one, err := pool.Conn(ctx)
	if err != nil {
		return nil, err
	}
	c := &conn{Conn: one, prepared: map[string]*sql.Stmt{}}
	version, err := c.number("PRAGMA user_version")
	if known := int64(len(migrations())); err == nil && version != known {
		err = vfs.Errorf(vfs.Unsupported, "this state has the version %d, and this capd reads version %d", version, known)
	}
	if err != nil {
		return nil, errors.Join(err, c.Close())
	}
	return c, nil
}

// Read runs do on a snapshot of the state, as [DB.Read] does.
func (v *View) Read(ctx context.Context, do func(*Rows) error) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.c.snapshot(do)
}

// Close closes the file.
func (v *View) Close() error { return errors.Join(v.c.Close(), v.pool.Close()) }
