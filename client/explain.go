package client

import (
	"context"
	"errors"

	"capd/cap/wire"
	schema "capd/capnp"
	"capd/vat"
)

// Explanation says whether something could be done now.
type Explanation struct {
	Allowed bool
	Asks    bool     // it would wait for an approval first
	Reasons []string // what decides, as far as a guest is told; the last is the error of the call
}

// Explain says whether something could be done at path now, without doing it. right is exactly one of Read, Write (a whole
// file), Delete, List, Metadata, or Move to the path to, below d too. It answers invalid for another right.
func (d *Dir) Explain(ctx context.Context, right Rights, path, to string) (Explanation, error) {
	return ask(ctx, &d.ref, schema.Dir_explain, func(p schema.Dir_explain_Params, _ *vat.Caps) error {
		return errors.Join(wire.SetRight(right, p.SetRight), p.SetPath(path), p.SetTo(to))
	}, func(r schema.Dir_explain_Results, _ *vat.Caps) (x Explanation, err error) {
		x.Allowed, x.Asks = r.Allowed(), r.Asks()
		x.Reasons, err = wire.Texts(r.Reasons())
		return x, err
	})
}
