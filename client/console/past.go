package console

import (
	"context"
	"errors"

	"capd/cap/wire"
	schema "capd/capnp"
	"capd/vat"
	"capd/vfs"
)

// Past is the history of a grant, as its host sees it.
type Past struct {
	console *Console
	guest   string
}

// Past returns the history of the grant of guest, or of the grant or share with that id.
func (c *Console) Past(guest string) Past { return Past{c, guest} }

// History returns a page of what was done, the newest first. Paths are from the top of the tree.
func (p Past) History(ctx context.Context, q vfs.PastQuery) (page vfs.PastPage, err error) {
	err = wire.Do(ctx, p.console.cap, schema.Console_history, func(w schema.Console_history_Params, _ *vat.Caps) error {
		w.SetBefore(uint64(max(0, q.Before)))
		w.SetLimit(uint32(max(0, q.Limit)))
		return w.SetGuest(p.guest)
	}, func(r schema.Console_history_Results, _ *vat.Caps) error {
		all, err := r.Entries()
		page, err = wire.PastPage(all, err, r.More(), r.SinceMs())
		return err
	})
	return page, err
}

// Undo takes back what was done. The host itself makes the changes.
func (p Past) Undo(ctx context.Context, u vfs.Undo) (done vfs.Undone, err error) {
	err = wire.Do(ctx, p.console.cap, schema.Console_undo, func(w schema.Console_undo_Params, _ *vat.Caps) error {
		what, err := w.NewWhat()
		if err != nil {
			return err
		}
		w.SetDryRun(u.DryRun)
		return errors.Join(w.SetGuest(p.guest), wire.SetUndo(what, u))
	}, func(r schema.Console_undo_Results, _ *vat.Caps) error {
		ids, err := r.Entries()
		done, err = wire.Undone(r.Id(), ids, err)(r.Steps())
		return err
	})
	return done, err
}
