package file

import (
	"capd/cap/wire"
	schema "capd/capnp"
	"capd/vat"
	"capd/vfs/editing"
)

func (s *server) edit(c vat.Call[schema.File_edit_Params, schema.File_edit_Results]) error {
	cond, err := s.cond(c.Params())
	if err != nil {
		return err
	}
	edits, err := wire.Edits(c.Params())
	if err != nil {
		return s.at(err)
	}
	made, err := editing.Edit(c.Context(), s.file, editing.Request{Edits: edits, If: cond, Dry: c.Params().DryRun()},
		editing.How{Path: s.path, Weigh: c.Weigh})
	if err != nil {
		return s.at(err)
	}
	return wire.SetEdited(c.ResultsFor, made)
}
