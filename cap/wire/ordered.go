package wire

import (
	"capnproto.org/go/capnp/v3"

	"capd/vat"
	"capd/vfs"
)

// Ordered makes a handler that answers, of all that speaks against a call, what comes first in the order of
// docs/errors.md, whatever the handler that it is made of found first. need is what the method needs of the node.
func Ordered[S interface{ Node() vfs.Node }, P, R ~capnp.StructKind](need vfs.Need, handle func(S, vat.Call[P, R]) error) func(S, vat.Call[P, R]) error {
	return func(s S, c vat.Call[P, R]) error {
		err := handle(s, c)
		if err == nil || err == vat.ErrWouldBlock {
			return err
		}
		return vfs.Refusal(c.Context(), s.Node(), pathOf(c.Params()), need, err)
	}
}

// pathOf is the path that a call is about, or "".
func pathOf(params any) string {
	p, ok := params.(interface{ PathBytes() ([]byte, error) })
	if !ok {
		return ""
	}
	path, _ := Path(p.PathBytes())
	return path
}
