package dir

import (
	"capd/cap/wire"
	schema "capd/capnp"
	"capd/vat"
	"capd/vfs/change"
)

func (s *server) patch(c vat.Call[schema.Dir_patch_Params, schema.Dir_patch_Results]) error {
	p := c.Params()
	text, err := wire.Param(p.Text())
	if err != nil {
		return err
	}
	files, err := change.Patch(c.Context(), s.dir, text, p.Reverse(), change.Options{DryRun: p.DryRun()})
	if err != nil {
		return wire.Named(err)
	}
	return wire.SetAll(files, c.Results().NewFiles, wire.SetPatched)
}
