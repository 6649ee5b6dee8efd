package console

import (
	"context"

	"capnproto.org/go/capnp/v3"

	"capd/cap/wire"
	"capd/vat"
)

// counted calls a method that answers a number of grants.
func counted[P ~capnp.StructKind, R interface {
	~capnp.StructKind
	Count() uint32
}](ctx context.Context, c *vat.Cap, m vat.Method[P, R], place func(P) error) (int, error) {
	return wire.Ask(ctx, c, m, func(p P, _ *vat.Caps) error { return place(p) },
		func(r R, _ *vat.Caps) (int, error) { return int(r.Count()), nil })
}
