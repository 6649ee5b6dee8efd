package console

import (
	"errors"

	"capd/authority"
	"capd/cap/wire"
	schema "capd/capnp"
	"capd/operator"
	"capd/vat"
	"capd/vfs"
)

func (s *server) setLimits(c vat.Call[schema.Console_setLimits_Params, schema.Console_setLimits_Results]) error {
	guest, err := wire.Param(c.Params().Guest())
	if err != nil {
		return err
	}
	l, err := wire.Limits(wire.Sound[schema.Limit_List](c.Params().HasLimits())(c.Params().Limits()))
	if err == nil && len(l) == 0 {
		err = vfs.Errorf(vfs.Invalid, "there is no limit to set; give at least one")
	}
	if err != nil {
		return vfs.At(guest, err)
	}
	n, err := s.host.SetLimits(guest, l)
	c.Results().SetCount(uint32(n))
	return vfs.At(guest, err)
}

// maxUsages is the largest number of grants in a page of usage, so that it fits into a
// message.
const maxUsages = 1000

func (s *server) usage(c vat.Call[schema.Console_usage_Params, schema.Console_usage_Results]) error {
	after, err := wire.Param(c.Params().After())
	if err != nil {
		return err
	}
	gs, more, err := pageOf(s.host.Metered, after, min(wire.PageSize(c.Params().Limit()), maxUsages))
	if err != nil {
		return err
	}
	r := c.Results()
	r.SetMore(more)
	meters := s.host.Meters()
	return errors.Join(
		wire.SetAll(gs, r.NewGrants, setMetered),
		wire.SetUsage(operator.UsageOf(meters.All()), r.NewHost),
		wire.SetUsage(operator.UsageOf(meters.Strangers()), r.NewStrangers),
	)
}

func setMetered(w schema.GrantUsage, g authority.Metered) error {
	return wire.SetGrantUsage(w, operator.GrantUsage{Grant: g.Grant, Usage: operator.UsageOf(g.Meter)})
}
