package client

import (
	"context"

	"capnproto.org/go/capnp/v3"

	"capd/cap/wire"
	"capd/vat"
	"capd/vfs"
)

// do calls the method m of c and waits for the result. It makes no call if ctx has
// ended. Malformed results are corrupt.
func do[P, R ~capnp.StructKind](ctx context.Context, c *vat.Cap, m vat.Method[P, R],
	place func(P, *vat.Caps) error, read func(R, *vat.Caps) error) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	var failed error
	err := vat.Do(ctx, c, m, place, func(results R, caps *vat.Caps) error {
		if read != nil {
			failed = sense(read(results, caps))
		}
		return nil
	})
	if err != nil {
		return wire.Decode(err)
	}
	return failed
}

// sense returns corrupt for the error of reading malformed results, and any other error
// as it is.
func sense(err error) error {
	switch vfs.CodeOf(err) {
	case vfs.Internal, vfs.Invalid:
		return &vfs.Error{Code: vfs.Corrupt, Msg: "the host answered what makes no sense", Cause: err}
	}
	return err
}
