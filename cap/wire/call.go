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
			failed = sense(read(results, caps))
		}
		return nil
	})
	if err != nil {
		return Decode(err)
	}
	return failed
}

// Ask is Do for a method whose results are one value, which read returns.
func Ask[P, R ~capnp.StructKind, T any](ctx context.Context, c *vat.Cap, m vat.Method[P, R],
	place func(P, *vat.Caps) error, read func(R, *vat.Caps) (T, error)) (v T, err error) {
	err = Do(ctx, c, m, place, func(r R, caps *vat.Caps) (err error) {
		v, err = read(r, caps)
		return err
	})
	return v, err
}

// Held returns a reference of its own to a capability in results. It answers corrupt
// for none.
func Held(c *vat.Cap) (*vat.Cap, error) {
	if c == nil {
		return nil, errNoCap
	}
	return c.AddRef(), nil
}

var errNoCap = vfs.Errorf(vfs.Corrupt, "the host answered no capability where one belongs")

// sense returns corrupt for the error of reading malformed results, and any other error
// as it is.
func sense(err error) error {
	switch vfs.CodeOf(err) {
	case vfs.Internal, vfs.Invalid:
		return &vfs.Error{Code: vfs.Corrupt, Msg: "the host answered what makes no sense", Cause: err}
	}
	return err
}
