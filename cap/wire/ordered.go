package wire

import (
	"capnproto.org/go/capnp/v3"

	"capd/vat"
	"capd/vfs"
	"capd/vfs/membrane"
)

// Ordered returns a handler that answers the first error in the order of docs/errors.md if several
// apply, whichever of them handle found first. kind is the operation on the node that the method is. The guards of the node are
// told of what is refused.
func Ordered[S interface{ Node() vfs.Node }, P, R ~capnp.StructKind](kind membrane.OpKind, handle func(S, vat.Call[P, R]) error) func(S, vat.Call[P, R]) error {
	return OrderedNeeding(kind, membrane.To(kind), handle)
}

// OrderedNeeding is Ordered for a method that needs what need says.
func OrderedNeeding[S interface{ Node() vfs.Node }, P, R ~capnp.StructKind](kind membrane.OpKind, need membrane.Need, handle func(S, vat.Call[P, R]) error) func(S, vat.Call[P, R]) error {
	return OrderedBy(kind, func(P) membrane.Need { return need }, handle)
}

// OrderedBy is Ordered for a method that needs what its parameters say.
func OrderedBy[S interface{ Node() vfs.Node }, P, R ~capnp.StructKind](kind membrane.OpKind, need func(P) membrane.Need, handle func(S, vat.Call[P, R]) error) func(S, vat.Call[P, R]) error {
	return func(s S, c vat.Call[P, R]) error {
		err := handle(s, c)
		if err == nil || err == vat.ErrWouldBlock {
			return err
		}
		path := pathOf(c.Params())
		err = membrane.Refusal(c.Context(), s.Node(), path, need(c.Params()), err)
		if name, ok := any(c.Params()).(interface{ NameBytes() ([]byte, error) }); ok {
			path, _ = Path(name.NameBytes())
		}
		membrane.Denied(s.Node(), kind, path, newPathOf(c.Params()), err)
		return err
	}
}

// newPathOf returns the new path in the parameters of a move within one Dir, or "".
func newPathOf(params any) string {
	p, ok := params.(interface {
		NewPathBytes() ([]byte, error)
		HasDst() bool
	})
	if !ok || p.HasDst() {
		return ""
	}
	path, _ := Path(p.NewPathBytes())
	return path
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
