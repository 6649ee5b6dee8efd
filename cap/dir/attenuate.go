package dir

import (
	"errors"

	"capd/cap/control"
	"capd/cap/wire"
	schema "capd/capnp"
	"capd/vat"
	"capd/vfs"
	"capd/vfs/membrane"
)

func (s *server) readOnly(c vat.Call[schema.Dir_readOnly_Params, schema.Dir_readOnly_Results]) error {
	d, err := membrane.ReadOnlyDir(s.dir)
	if err != nil {
		return vfs.At("", err)
	}
	return answer(s, c, d, s.name)
}

func (s *server) revocable(c vat.Call[schema.Dir_revocable_Params, schema.Dir_revocable_Results]) error {
	d, ctl, err := membrane.RevocableDir(s.dir)
	if err != nil {
		return vfs.At("", err)
	}
	return errors.Join(c.Results().SetDir(c.Caps().Put(reached(d, s.name))),
		c.Results().SetRevoker(c.Caps().Put(control.NewRevoker(ctl))))
}

func (s *server) narrow(c vat.Call[schema.Dir_narrow_Params, schema.Dir_narrow_Results]) error {
	keep, err := wire.Rights(wire.Sound[schema.Right_List](c.Params().HasKeep())(c.Params().Keep()))
	if err != nil {
		return err
	}
	d, err := membrane.Narrow(s.dir, keep)
	if err != nil {
		return vfs.At("", err)
	}
	return answer(s, c, d.(vfs.Dir), s.name)
}

func (s *server) rights(c vat.Call[schema.Dir_rights_Params, schema.Dir_rights_Results]) error {
	r, err := membrane.RightsOf(s.dir)
	if err != nil {
		return vfs.At("", err)
	}
	return wire.SetRights(r, c.Results().NewRights)
}

func (s *server) temp(c vat.Call[schema.Dir_temp_Params, schema.Dir_temp_Results]) error {
	d, err := membrane.Temp(c.Context(), s.dir)
	if err != nil {
		return vfs.At("", err)
	}
	return answer(s, c, d, "")
}
