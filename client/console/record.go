package console

import (
	"context"

	"capd/cap/wire"
	schema "capd/capnp"
	"capd/vat"
)

// Checkpoint signs what the record of the host has now, and returns the note. It is kept for ever, so that the record can
// be compared with it later; see [capd/record.Verify].
func (c *Console) Checkpoint(ctx context.Context) (string, error) {
	return wire.Ask(ctx, c.cap, schema.Console_checkpoint, nil,
		func(r schema.Console_checkpoint_Results, _ *vat.Caps) (string, error) { return r.Note() })
}
