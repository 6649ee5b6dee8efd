package console

import (
	schema "capd/capnp"
	"capd/vat"
	"capd/vfs"
)

var errNoRecord = vfs.At("", vfs.Errorf(vfs.Unsupported, "this host keeps no record"))

func (s *server) checkpoint(c vat.Call[schema.Console_checkpoint_Params, schema.Console_checkpoint_Results]) error {
	if s.options.Events == nil {
		return errNoRecord
	}
	note, err := s.options.Events.Checkpoint(true)
	if err != nil {
		return vfs.At("", err)
	}
	return c.Results().SetNote(note)
}
