package console

import (
	"capd/cap/wire"
	schema "capd/capnp"
	"capd/vat"
)

func (s *server) roots(c vat.Call[schema.Console_roots_Params, schema.Console_roots_Results]) error {
	return wire.SetAll(s.host.Roots(), c.Results().NewRoots, wire.SetRoot)
}
