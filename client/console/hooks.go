package console

import (
	"context"

	"capd/cap/wire"
	schema "capd/capnp"
	"capd/operator"
	"capd/vat"
)

// AddHook registers a hook that by implements, which is called while c is open. The registration lasts: when c is closed,
// the changes that the hook would be asked about are denied, until it is added again or removed. h.Command and
// h.Source are not used. by is called from several goroutines. See docs/hooks.md.
func (c *Console) AddHook(ctx context.Context, h operator.Hook, by operator.HookCalls) error {
	return wire.Do(ctx, c.cap, schema.Console_addHook, func(p schema.Console_addHook_Params, caps *vat.Caps) error {
		w, err := p.NewSpec()
		if err != nil {
			return err
		}
		if err := wire.SetHookSpec(w, h); err != nil {
			return err
		}
		return p.SetHook(caps.Put(vat.Serve(hookTable, &hooked{by})))
	}, nil)
}

// Hooks returns the hooks that are registered, in the order in which they are asked.
func (c *Console) Hooks(ctx context.Context) (all []operator.HookState, err error) {
	return wire.Ask(ctx, c.cap, schema.Console_hooks, func(schema.Console_hooks_Params, *vat.Caps) error { return nil },
		func(r schema.Console_hooks_Results, _ *vat.Caps) ([]operator.HookState, error) {
			return wire.All(wire.HookState)(r.Hooks())
		})
}

// RemoveHook takes back what AddHook has registered.
func (c *Console) RemoveHook(ctx context.Context, name string) error {
	return wire.Do(ctx, c.cap, schema.Console_removeHook, func(p schema.Console_removeHook_Params, _ *vat.Caps) error {
		return p.SetName(name)
	}, nil)
}

// hooked serves a hook.
type hooked struct{ by operator.HookCalls }

var hookTable = vat.NewTable(
	vat.Handle(schema.Hook_before, (*hooked).before),
	vat.Handle(schema.Hook_after, (*hooked).after),
)

func (h *hooked) before(c vat.Call[schema.Hook_before_Params, schema.Hook_before_Results]) error {
	change, err := wire.One(wire.HookedChange)(c.Params().Change())
	if err != nil {
		return err
	}
	answer, reason, err := h.by.Before(c.Context(), change)
	if err != nil {
		return err
	}
	c.Results().SetAnswer(wire.HookAnswer(answer))
	return c.Results().SetReason(reason)
}

func (h *hooked) after(c vat.Call[schema.Hook_after_Params, schema.Hook_after_Results]) error {
	change, err := wire.One(wire.HookedChange)(c.Params().Change())
	outcome := wire.Keep[operator.HookOutcome](&err)(wire.One(wire.HookOutcome)(c.Params().Outcome()))
	if err != nil {
		return err
	}
	return h.by.After(c.Context(), change, outcome)
}
