package wire

import (
	"context"

	"capnproto.org/go/capnp/v3"

	"capd/vat"
	"capd/vfs"
)

// Do is [vat.Do] for a client: it makes no call if ctx has ended, a failure of the call
// is decoded, and malformed results are corrupt.
func Do[P, R ~capnp.StructKind](ctx context.Context, c *vat.Cap, m vat.Method[P, R],
	place func(P, *vat.Caps) error, read func(R, *vat.Caps) error) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	var failed error
	err := vat.Do(ctx, c, m, place, func(results R, caps *vat.Caps) error {
		if read != nil {
			failed = Sense(read(results, caps))
		}
		return nil
	})
	if err != nil {
		return Decode(err)
	}
	return failed
}

// Sense returns corrupt for the error of reading malformed results, and any other error
// as it is.
func Sense(err error) error {
	switch vfs.CodeOf(err) {
	case vfs.Internal, vfs.Invalid:
		return &vfs.Error{Code: vfs.Corrupt, Msg: "the host answered what makes no sense", Cause: err}
	}
	return err
}
