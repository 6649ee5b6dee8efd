package dir

import (
	"io"

	"capd/cap/wire"
	schema "capd/capnp"
	"capd/vat"
	"capd/vfs"
	"capd/vfs/membrane"
)

func (s *server) history(c vat.Call[schema.Dir_history_Params, schema.Dir_history_Results]) error {
	p := c.Params()
	before, err := wire.Offset(p.Before())
	if err != nil {
		return err
	}
	page, err := vfs.History(c.Context(), s.dir, vfs.PastQuery{Before: before, Limit: int(min(p.Limit(), wire.MaxPage))})
	if err != nil {
		return vfs.At("", err)
	}
	r := c.Results()
	r.SetMore(page.More)
	r.SetSinceMs(page.SinceMs)
	return wire.SetAll(page.Entries, r.NewEntries, wire.SetPast)
}

func (s *server) undo(c vat.Call[schema.Dir_undo_Params, schema.Dir_undo_Results]) error {
	p := c.Params()
	what, err := wire.One(wire.Undo)(wire.Sound[schema.Undoing](p.HasWhat())(p.What()))
	if err != nil {
		return err
	}
	what.DryRun = p.DryRun()
	done, err := vfs.UndoIn(c.Context(), s.dir, what)
	if err != nil {
		return vfs.At("", err)
	}
	r := c.Results()
	r.SetId(uint64(done.ID))
	return wire.SetUndone(done, r.NewEntries, r.NewSteps)
}

func (s *server) readPast(c vat.Call[schema.Dir_readPast_Params, schema.Dir_readPast_Results]) error {
	p := c.Params()
	path, err := wire.Path(p.PathBytes())
	if err != nil {
		return err
	}
	v := wire.Keep[vfs.Version](&err)(wire.Version(p.Version()))
	off := wire.Keep[int64](&err)(wire.Offset(p.Offset()))
	if err == nil && v.IsZero() {
		err = vfs.Errorf(vfs.Invalid, "say which version: history has them")
	}
	if err == nil {
		err = wire.CheckChunk(int(p.Length()))
	}
	if err != nil {
		return vfs.At(path, err)
	}
	content, err := vfs.OpenPast(c.Context(), s.dir, path, v)
	if err != nil {
		return vfs.At(path, err)
	}
	defer content.Close()
	b, err := c.Data(schema.Dir_readPast_Results_data, int(p.Length()))
	if err != nil {
		return err
	}
	n, err := content.ReadAt(b, off)
	if err != nil && err != io.EOF {
		return vfs.At(path, err)
	}
	c.Cut(n)
	r := c.Results()
	r.SetEof(off+int64(n) >= content.Size())
	r.SetSizeBytes(uint64(content.Size()))
	return nil
}

func (s *server) turn(c vat.Call[schema.Dir_turn_Params, schema.Dir_turn_Results]) error {
	name, err := wire.Param(c.Params().Name())
	if err != nil {
		return err
	}
	d, err := membrane.InTurn(s.dir, name)
	if err != nil {
		return vfs.At("", err)
	}
	return answer(s, c, d, s.name)
}
