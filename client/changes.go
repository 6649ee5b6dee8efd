package client

import (
	"context"
	"iter"
	"time"

	"capd/cap/wire"
	schema "capd/capnp"
	"capd/vat"
	"capd/vfs"
)

var _ vfs.Teller = (*Dir)(nil)

// Changes implements vfs.Teller: it returns what changed since the cursor of an earlier answer. See also [Dir.Follow].
func (d *Dir) Changes(ctx context.Context, q vfs.ChangesQuery) (vfs.ChangesPage, error) {
	return ask(ctx, &d.ref, schema.Dir_changes, func(p schema.Dir_changes_Params, _ *vat.Caps) error {
		p.SetWaitMs(uint32(min(max(0, q.Wait), vfs.MaxChangesWait) / time.Millisecond))
		p.SetOthers(q.Others)
		return p.SetCursor(q.Cursor)
	}, func(r schema.Dir_changes_Results, _ *vat.Caps) (page vfs.ChangesPage, err error) {
		page = vfs.ChangesPage{Rescan: r.Rescan(), Complete: r.Complete()}
		cursor := wire.Keep[[]byte](&err)(r.Cursor())
		page.Cursor = append([]byte{}, cursor...)
		page.Events = wire.Keep[[]vfs.Event](&err)(wire.All(wire.ChangeEvent)(r.Events()))
		return page, err
	})
}

// Follow yields what changes from now on, or since q.Cursor, until ctx ends: a page whenever something has changed. The first says
// Rescan unless q has a cursor that is still good: list then. Each question waits for q.Wait, a minute if that is 0. An error of Follow is the last thing yielded.
func (d *Dir) Follow(ctx context.Context, q vfs.ChangesQuery) iter.Seq2[vfs.ChangesPage, error] {
	return func(yield func(vfs.ChangesPage, error) bool) {
		if q.Wait == 0 {
			q.Wait = vfs.MaxChangesWait
		}
		for {
			page, err := d.Changes(ctx, q)
			if err != nil {
				yield(page, err)
				return
			}
			q.Cursor = page.Cursor
			if (page.Rescan || len(page.Events) > 0) && !yield(page, nil) {
				return
			}
		}
	}
}
