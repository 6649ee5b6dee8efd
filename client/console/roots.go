package console

import (
	"context"

	"capd/cap/wire"
	schema "capd/capnp"
	"capd/operator"
	"capd/vat"
)

// Roots returns the roots of the host's tree, in the order of their declaration.
func (c *Console) Roots(ctx context.Context) (all []operator.Root, err error) {
	err = wire.Do(ctx, c.cap, schema.Console_roots, func(schema.Console_roots_Params, *vat.Caps) error {
		return nil
	}, func(r schema.Console_roots_Results, _ *vat.Caps) error {
		all, err = wire.All(wire.Root)(r.Roots())
		return err
	})
	return all, err
}
