package dir

import (
	"time"

	"capd/cap/wire"
	schema "capd/capnp"
	"capd/vat"
	"capd/vfs"
)

func (s *server) changes(c vat.Call[schema.Dir_changes_Params, schema.Dir_changes_Results]) error {
	p := c.Params()
	cursor, err := wire.Param(p.Cursor())
	if err != nil {
		return err
	}
	page, err := vfs.Changes(c.Context(), s.dir, vfs.ChangesQuery{Cursor: cursor, Wait: time.Duration(p.WaitMs()) * time.Millisecond, Others: p.Others()})
	if err != nil {
		return vfs.At("", err)
	}
	r := c.Results()
	r.SetRescan(page.Rescan)
	r.SetComplete(page.Complete)
	if err := r.SetCursor(page.Cursor); err != nil {
		return err
	}
	return wire.SetAll(page.Events, r.NewEvents, wire.SetChangeEvent)
}
