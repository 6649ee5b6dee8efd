package client

import (
	"context"

	"capd/cap/wire"
	schema "capd/capnp"
	"capd/vat"
	"capd/vfs"
	"capd/vfs/patch"
)

// PatchOptions say how a patch is applied.
type PatchOptions struct {
	Reverse bool // take the patch back
	DryRun  bool // change nothing, and answer what would come of it
}

// Patch applies text, a unified diff or what apply_patch takes, to the files below d that it names: all or none. It returns what
// it made of each path. The codes are those of Dir.patch in the schema. It answers tooLarge for more than [patch.MaxBytes].
func (d *Dir) Patch(ctx context.Context, text []byte, o PatchOptions) ([]patch.Result, error) {
	if len(text) > patch.MaxBytes {
		return nil, vfs.Errorf(vfs.TooLarge, "a patch has at most %d bytes; send several", patch.MaxBytes)
	}
	return ask(ctx, &d.ref, schema.Dir_patch, func(p schema.Dir_patch_Params, _ *vat.Caps) error {
		p.SetReverse(o.Reverse)
		p.SetDryRun(o.DryRun)
		return p.SetText(text)
	}, func(r schema.Dir_patch_Results, _ *vat.Caps) ([]patch.Result, error) {
		return wire.All(wire.Patched)(r.Files())
	})
}
