package client

import (
	"context"

	"capd/cap/wire"
	schema "capd/capnp"
	"capd/vat"
	"capd/vfs"
)

var _ vfs.Attributer = (*File)(nil)

// SetAttributes implements vfs.Attributer.
func (f *File) SetAttributes(ctx context.Context, a vfs.Attributes, c vfs.If) error {
	return do(ctx, &f.ref, schema.File_setAttributes, func(p schema.File_setAttributes_Params, _ *vat.Caps) error {
		w, err := p.NewAttributes()
		if err != nil {
			return err
		}
		if a.Exec != nil {
			w.Executable().SetSet(*a.Exec)
		}
		if a.ModifiedMs != nil {
			w.Modified().SetMs(*a.ModifiedMs)
		}
		return wire.SetIf(c, p.NewIfVersion)
	}, nil)
}
