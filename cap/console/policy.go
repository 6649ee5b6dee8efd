package console

import (
	"errors"

	"capd/cap/wire"
	schema "capd/capnp"
	"capd/operator"
	"capd/vat"
	"capd/vfs"
)

// rulebook returns the rules of the host. It answers unsupported if it has none.
func (s *server) rulebook() (operator.Rulebook, error) {
	if s.options.Rules == nil {
		return nil, vfs.Errorf(vfs.Unsupported, "this host keeps no rules")
	}
	return s.options.Rules, nil
}

func (s *server) policy(c vat.Call[schema.Console_policy_Params, schema.Console_policy_Results]) error {
	b, err := s.rulebook()
	if err != nil {
		return err
	}
	p, r := b.Policy(), c.Results()
	return errors.Join(wire.SetAll(p.Rules, r.NewRules, wire.SetRule), r.SetDefault(string(p.Default)), r.SetHash(p.Hash))
}

func (s *server) setPolicy(c vat.Call[schema.Console_setPolicy_Params, schema.Console_setPolicy_Results]) error {
	rules, err := wire.Param(c.Params().Rules())
	ifHash := wire.Keep[string](&err)(c.Params().IfHash())
	if err != nil {
		return err
	}
	b, err := s.rulebook()
	if err != nil {
		return err
	}
	hash, err := b.SetPolicy(rules, ifHash)
	if err != nil {
		return err
	}
	return c.Results().SetHash(hash)
}

// maxPolicies is how many versions of the policy are answered at once.
const maxPolicies = 100

func (s *server) policies(c vat.Call[schema.Console_policies_Params, schema.Console_policies_Results]) error {
	b, err := s.rulebook()
	if err != nil {
		return err
	}
	most := int(c.Params().Limit())
	if most == 0 || most > maxPolicies {
		most = maxPolicies
	}
	all, err := b.Policies(most)
	if err != nil {
		return err
	}
	return wire.SetAll(all, c.Results().NewPolicies, wire.SetPolicyVersion)
}
