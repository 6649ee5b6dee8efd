package client

import (
	"context"

	"capd/cap/wire"
	schema "capd/capnp"
	"capd/vat"
	"capd/vfs"
	"capd/vfs/step"
)

// Change makes steps below d, one after the other: all or none. It sets Left of each that puts or edits. The codes are those of Dir.change in the schema.
func (d *Dir) Change(ctx context.Context, steps []step.Step, dryRun bool) error {
	if len(steps) > step.Max {
		return vfs.Errorf(vfs.Limit, "a change has at most %d steps; make several", step.Max)
	}
	size := 0
	for i := range steps {
		size += len(steps[i].Data)
		for _, e := range steps[i].Edits {
			size += len(e.Old) + len(e.New)
		}
	}
	if size > wire.MaxWhole {
		return vfs.Errorf(vfs.TooLarge, "the contents of a change are at most %d bytes; put more under another name first, and then move it", wire.MaxWhole)
	}
	return do(ctx, &d.ref, schema.Dir_change, func(p schema.Dir_change_Params, _ *vat.Caps) error {
		p.SetDryRun(dryRun)
		return wire.SetAll(steps, p.NewSteps, wire.SetStep)
	}, func(r schema.Dir_change_Results, _ *vat.Caps) error {
		versions, err := r.Versions()
		if err != nil {
			return err
		}
		if versions.Len() != len(steps) {
			return vfs.Errorf(vfs.Corrupt, "the host answered %d versions for %d steps", versions.Len(), len(steps))
		}
		for i := range steps {
			if steps[i].Left, err = wire.Version(versions.At(i)); err != nil {
				return err
			}
		}
		return nil
	})
}
