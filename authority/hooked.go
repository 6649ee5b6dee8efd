package authority

import (
	"context"

	"capd/hook"
	"capd/operator"
	"capd/vfs"
	"capd/vfs/membrane"
)

// before asks the hooks that the change concerns, while the call holds nothing that others want. A batch is asked about
// ahead, since its changes are made while it holds gates. They are not asked about a change that is only tried.
func (c *change) before(ctx context.Context) error {
	h := c.host
	if h.hooks == nil || !h.hooks.Any() || c.op.Batch == membrane.InBatch || c.op.Kind.Whole() || c.trial {
		return nil
	}
	about := c.hooked(ctx)
	if len(h.hooks.Asked(about)) == 0 {
		return nil
	}
	waiting, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer c.op.OnRevoke(cancel)()
	var asks []string
	var err error
	late := vfs.Aside(ctx, func() { asks, c.hooks, err = h.hooks.Before(waiting, about) })
	if err == nil {
		err = late
	}
	for _, why := range asks {
		if err == nil && vfs.IsPart(ctx) { // also if the whole was approved: that did not say what the hook says
			err = vfs.Errorf(vfs.AskDenied, "a hook asks before this, which cannot be asked for within a larger change; make this change by itself")
		}
		if err == nil {
			err = vfs.Asks(ctx, why) // none can be asked for ahead
		}
	}
	return err
}

// hooked returns the change as hooks are asked about it.
func (c *change) hooked(ctx context.Context) (about hook.Change) {
	about.Operation, about.Path, about.To, about.Part = c.op.Kind.String(), c.op.Path, c.op.To, vfs.IsPart(ctx)
	c.host.mu.Lock()
	defer c.host.mu.Unlock()
	if g := c.host.residents.byMeter[c.op.By()]; g != nil {
		about.Subject, about.Grant = string(g.subject), idText(g.id)
	}
	return about
}

var _ operator.Hooks = (*hook.Chain)(nil)
