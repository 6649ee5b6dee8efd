package console

import (
	"context"
	"errors"

	"capd/cap/wire"
	schema "capd/capnp"
	"capd/operator"
	"capd/vat"
)

// Policy returns the rules that hold now.
func (c *Console) Policy(ctx context.Context) (p operator.Policy, err error) {
	err = wire.Do(ctx, c.cap, schema.Console_policy, func(schema.Console_policy_Params, *vat.Caps) error {
		return nil
	}, func(r schema.Console_policy_Results, _ *vat.Caps) error {
		p.Rules, err = wire.All(wire.Rule)(r.Rules())
		text := wire.Keep[string](&err)
		p.Default, p.Hash = operator.RuleEffect(text(r.Default())), text(r.Hash())
		return err
	})
	return p, err
}

// SetPolicy replaces the rules that were set before by those in text, if the policy that holds now has the hash ifHash.
// See [operator.Rulebook].
func (c *Console) SetPolicy(ctx context.Context, text, ifHash string) (hash string, err error) {
	err = wire.Do(ctx, c.cap, schema.Console_setPolicy, func(p schema.Console_setPolicy_Params, _ *vat.Caps) error {
		return errors.Join(p.SetRules(text), p.SetIfHash(ifHash))
	}, func(r schema.Console_setPolicy_Results, _ *vat.Caps) error {
		hash, err = r.Hash()
		return err
	})
	return hash, err
}

// Policies returns what the policy was, the latest first: at most max, and at most 100.
func (c *Console) Policies(ctx context.Context, max int) (all []operator.PolicyVersion, err error) {
	err = wire.Do(ctx, c.cap, schema.Console_policies, func(p schema.Console_policies_Params, _ *vat.Caps) error {
		p.SetLimit(uint32(max))
		return nil
	}, func(r schema.Console_policies_Results, _ *vat.Caps) error {
		all, err = wire.All(wire.PolicyVersion)(r.Policies())
		return err
	})
	return all, err
}
