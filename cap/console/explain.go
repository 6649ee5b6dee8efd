package console

import (
	"capd/cap/wire"
	schema "capd/capnp"
	"capd/vat"
	"capd/vfs"
	"capd/vfs/membrane"
)

func (s *server) explain(c vat.Call[schema.Console_explain_Params, schema.Console_explain_Results]) error {
	p := c.Params()
	guest, err := wire.Param(p.Guest())
	path := wire.Keep[string](&err)(wire.Path(p.PathBytes()))
	to := wire.Keep[string](&err)(wire.Path(p.ToBytes()))
	if err != nil {
		return err
	}
	all, err := s.host.Explain(c.Context(), guest, membrane.Question{Right: wire.RightOf(p.Right()), Path: path, To: to})
	if err != nil {
		return vfs.At(guest, err)
	}
	return wire.SetAll(all, c.Results().NewGrants, wire.SetExplanation)
}
