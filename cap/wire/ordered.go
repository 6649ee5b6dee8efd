package wire

import (
	"capnproto.org/go/capnp/v3"

	"capd/vat"
	"capd/vfs"
	"capd/vfs/membrane"
)

// Ordered returns a handler that answers the first error in the order of docs/errors.md if several
// apply, whichever of them handle found first. kind is the operation on the node that the method is.
func Ordered[S interface{ Node() vfs.Node }, P, R ~capnp.StructKind](kind membrane.OpKind, handle func(S, vat.Call[P, R]) error) func(S, vat.Call[P, R]) error {
	return func(s S, c vat.Call[P, R]) error {
		err := handle(s, c)
		if err == nil || err == vat.ErrWouldBlock {
			return err
		}
		return membrane.Refusal(c.Context(), s.Node(), pathOf(c.Params()), membrane.To(kind), err)
	}
}

// pathOf returns the path in a call's parameters, or "".
func pathOf(params any) string {
	p, ok := params.(interface{ PathBytes() ([]byte, error) })
	if !ok {
		return ""
	}
	path, _ := Path(p.PathBytes())
	return path
}
