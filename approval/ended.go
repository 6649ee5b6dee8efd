package approval

import (
	"context"

	"capd/database"
	"capd/vfs"
)

// Ended drops what waits of grants that end in tx. It may run again, in another transaction, if tx is undone.
func (d *Desk) Ended(tx *database.Tx, grants []int64) error {
	for _, q := range d.ending(grants) {
		if err := deleteAsk(tx, q.id); err != nil {
			return err
		}
	}
	return nil
}

// ending marks what waits of grants, and returns it.
func (d *Desk) ending(grants []int64) (all []*ask) {
	d.mu.Lock()
	defer d.mu.Unlock()
	waits := map[int64][]*ask{}
	for _, q := range d.asks {
		if q.pending() && q.request == nil {
			waits[q.grant] = append(waits[q.grant], q)
		}
	}
	for _, grant := range grants {
		all = append(all, waits[grant]...)
	}
	for _, q := range all {
		q.ended = true
	}
	return all
}

// dropEnded removes what Ended has marked. d.mu is held.
func (d *Desk) dropEnded() {
	for _, q := range d.asks {
		if q.ended && q.pending() && q.idle() {
			d.remove(q)
		}
	}
}

// leave is for a call that waits for q no more. One that had begun to wait when its grant ended may have added the row since.
func (d *Desk) leave(q *ask) {
	d.mu.Lock()
	q.waiting--
	over := q.ended && q.pending() && q.idle()
	if over {
		d.remove(q)
	}
	d.mu.Unlock()
	if over {
		d.db.Later(func(tx *database.Tx) error { return deleteAsk(tx, q.id) })
	}
}

// abandon is for a call whose ctx has ended. If its grant has ended, nobody can make the change any more.
func (d *Desk) abandon(ctx context.Context, q *ask) error {
	err := context.Cause(ctx)
	switch vfs.CodeOf(err) {
	case vfs.Revoked, vfs.Expired:
		d.mu.Lock()
		alone := q.waiting == 1 && q.pending() && !q.deciding
		if alone {
			d.remove(q)
		}
		d.mu.Unlock()
		if alone {
			d.db.Later(func(tx *database.Tx) error { return deleteAsk(tx, q.id) })
		}
	}
	return err
}
