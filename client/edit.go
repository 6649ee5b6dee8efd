package client

import (
	"cmp"
	"context"

	"capd/cap/wire"
	schema "capd/capnp"
	"capd/vat"
	"capd/vfs/editing"
)

var _ editing.Editor = (*File)(nil)

// Edit makes edits in the file, all or none. It answers conflict, with what is there, if one of
// them does not match.
func (f *File) Edit(ctx context.Context, r editing.Request) (made editing.Result, err error) {
	err = do(ctx, &f.ref, schema.File_edit, func(p schema.File_edit_Params, _ *vat.Caps) error {
		p.SetDryRun(r.Dry)
		return cmp.Or(wire.SetEdits(p, r.Edits), wire.SetIf(r.If, p.NewIfVersion))
	}, func(r schema.File_edit_Results, _ *vat.Caps) error {
		made, err = wire.Edited(r)
		return err
	})
	return made, err
}
