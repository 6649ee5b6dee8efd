package console

import (
	"context"
	"errors"

	"capd/cap/wire"
	schema "capd/capnp"
	"capd/operator"
	"capd/vat"
	"capd/vfs/membrane"
)

// Explain says for each live grant and share of guest, or for the one with that id, whether it would allow something now,
// and what decides. right is exactly one, to is where to for a move, and the paths are from the top of the tree.
func (c *Console) Explain(ctx context.Context, guest string, right membrane.Rights, path, to string) (all []operator.Explanation, err error) {
	err = wire.Do(ctx, c.cap, schema.Console_explain, func(p schema.Console_explain_Params, _ *vat.Caps) error {
		return errors.Join(wire.SetRight(right, p.SetRight), p.SetGuest(guest), p.SetPath(path), p.SetTo(to))
	}, func(r schema.Console_explain_Results, _ *vat.Caps) error {
		all, err = wire.All(wire.Explanation)(r.Grants())
		return err
	})
	return all, err
}
