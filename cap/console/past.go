package console

import (
	"capd/cap/wire"
	schema "capd/capnp"
	"capd/vat"
	"capd/vfs"
)

func (s *server) history(c vat.Call[schema.Console_history_Params, schema.Console_history_Results]) error {
	p := c.Params()
	guest, err := wire.Param(p.Guest())
	before := wire.Keep[int64](&err)(wire.Offset(p.Before()))
	if err != nil {
		return err
	}
	page, err := s.host.PastOf(c.Context(), guest, vfs.PastQuery{Before: before, Limit: int(min(p.Limit(), wire.MaxPage))})
	if err != nil {
		return vfs.At(guest, err)
	}
	r := c.Results()
	r.SetMore(page.More)
	r.SetSinceMs(page.SinceMs)
	return wire.SetAll(page.Entries, r.NewEntries, wire.SetPast)
}

func (s *server) undo(c vat.Call[schema.Console_undo_Params, schema.Console_undo_Results]) error {
	p := c.Params()
	guest, err := wire.Param(p.Guest())
	what := wire.Keep[vfs.Undo](&err)(wire.One(wire.Undo)(wire.Sound[schema.Undoing](p.HasWhat())(p.What())))
	if err != nil {
		return err
	}
	what.DryRun = p.DryRun()
	done, err := s.host.UndoOf(c.Context(), guest, what)
	if err != nil {
		return vfs.At(guest, err)
	}
	r := c.Results()
	r.SetId(uint64(done.ID))
	return wire.SetUndone(done, r.NewEntries, r.NewSteps)
}
