package console

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"

	"capd/cap/wire"
	schema "capd/capnp"
	"capd/operator"
	"capd/vat"
	"capd/vfs"
)

// hooks returns the hooks of the host. It answers unsupported if it has none.
func (s *server) hooks() (operator.Hooks, error) {
	if s.options.Hooks == nil {
		return nil, vfs.At("", vfs.Errorf(vfs.Unsupported, "this host has no hooks"))
	}
	return s.options.Hooks, nil
}

func (s *server) addHook(c vat.Call[schema.Console_addHook_Params, schema.Console_addHook_Results]) error {
	all, err := s.hooks()
	if err != nil {
		return err
	}
	spec, err := wire.One(wire.HookSpec)(c.Params().Spec())
	if err != nil {
		return err
	}
	to := c.Caps().Get(c.Params().Hook())
	if to == nil {
		return vfs.At(spec.Name, vfs.Errorf(vfs.Invalid, "addHook needs a hook"))
	}
	h := s.own.add(to)
	if err := all.AddHook(c.Context(), spec, h); err != nil {
		h.end()
		return vfs.At(spec.Name, err)
	}
	return nil
}

func (s *server) listHooks(c vat.Call[schema.Console_hooks_Params, schema.Console_hooks_Results]) error {
	all, err := s.hooks()
	if err != nil {
		return err
	}
	states, err := all.ListHooks(c.Context())
	if err != nil {
		return vfs.At("", err)
	}
	return wire.SetAll(states, c.Results().NewHooks, wire.SetHookState)
}

func (s *server) removeHook(c vat.Call[schema.Console_removeHook_Params, schema.Console_removeHook_Results]) error {
	all, err := s.hooks()
	name := wire.Keep[string](&err)(wire.Param(c.Params().Name()))
	if err != nil {
		return err
	}
	return vfs.At(name, all.RemoveHook(c.Context(), name))
}

// Release ends the hooks that are served on this connection.
func (s *server) Release() { s.own.end() }

// ownHooks are the hooks that one connection serves.
type ownHooks struct {
	mu   sync.Mutex
	over bool
	all  []*remote
}

func (o *ownHooks) add(to *vat.Cap) *remote {
	h := &remote{cap: to.AddRef()}
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.over {
		h.end()
	}
	o.all = append(o.all, h)
	return h
}

func (o *ownHooks) end() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.over = true
	for _, h := range o.all {
		h.end()
	}
}

// remote calls a hook that a connection serves. It implements [operator.HookCaller].
type remote struct {
	cap  *vat.Cap
	gone atomic.Bool
}

func (h *remote) end() {
	if !h.gone.Swap(true) {
		h.cap.Release()
	}
}

// Gone implements [operator.HookCaller].
func (h *remote) Gone() bool { return h.gone.Load() }

// Before implements [operator.HookCaller].
func (h *remote) Before(ctx context.Context, c operator.HookedChange) (answer operator.HookAnswer, reason string, err error) {
	err = vat.Do(ctx, h.cap, schema.Hook_before, func(p schema.Hook_before_Params, _ *vat.Caps) error {
		return change(c, p.NewChange)
	}, func(r schema.Hook_before_Results, _ *vat.Caps) error {
		answer = wire.HookAnswerOf(r.Answer())
		if reason, err = r.Reason(); err != nil {
			return err
		}
		return nil
	})
	return answer, reason, failure(err)
}

// After implements [operator.HookCaller].
func (h *remote) After(ctx context.Context, c operator.HookedChange, o operator.HookOutcome) error {
	return failure(vat.Do(ctx, h.cap, schema.Hook_after, func(p schema.Hook_after_Params, _ *vat.Caps) error {
		w, err := p.NewOutcome()
		return errors.Join(err, wire.SetHookOutcome(w, o), change(c, p.NewChange))
	}, nil))
}

// change writes c.
func change(c operator.HookedChange, make func() (schema.HookedChange, error)) error {
	w, err := make()
	if err != nil {
		return err
	}
	return wire.SetHookedChange(w, c)
}

// failure returns what is wrong with a hook after a call, as the end of a sentence.
func failure(err error) error {
	exc, remote := errors.AsType[*vat.Exception](err)
	switch {
	case err == nil:
		return nil
	case remote && exc.Type == vat.Disconnected:
		return &vfs.Error{Code: vfs.Denied, Msg: "is not connected any more", Cause: err}
	}
	return &vfs.Error{Code: vfs.Denied, Msg: "failed", Cause: err}
}
