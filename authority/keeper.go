package authority

import (
	"cmp"
	"context"

	"capd/meter"
	"capd/record"
	"capd/vfs"
	"capd/vfs/membrane"
)

// keeper returns the guard that writes every change of guests to the record: what is about to be changed before it shows,
// and then how it ended. A change that needs an approval waits for it before. Without a record and approvals it does nothing.
func (h *Host) keeper() membrane.Guard {
	if h.record == nil && h.asks == nil {
		return membrane.Guard{}
	}
	return membrane.Guard{Around: h.keep, Changes: true}
}

// keep runs one operation that changes something.
func (h *Host) keep(ctx context.Context, op membrane.Op, do func(context.Context) (vfs.Effect, error)) (vfs.Effect, error) {
	if op.Batch == membrane.Ahead {
		return do(ctx)
	}
	c := &change{host: h, op: op}
	call := vfs.CallOf(ctx)
	call.OnChange(c)
	e, err := do(vfs.WithCall(ctx, call))
	c.end(e, err)
	return e, err
}

// change is a change of a guest's while it is made. It implements [vfs.Change].
type change struct {
	host   *Host
	op     membrane.Op
	why    []string       // it needs an approval; see asking.go
	intent *record.Intent // nil until it is ready
	span   *span          // of a write in place, instead
}

// Ready implements vfs.Change. An operation that the store refuses before it is ready leaves no entry.
func (c *change) Ready(ctx context.Context, s vfs.Staged) (finish func() error, err error) {
	approved, used, err := c.approved(ctx, s)
	if err != nil || c.host.record == nil {
		return used, err
	}
	e := record.Entry{
		Op: c.op.Kind.String(), Path: record.Path(c.op.Path), To: record.Path(c.op.To), Grants: c.host.lineage(c.op.By()),
		Bytes: s.Grows.Bytes, Nodes: s.Grows.Nodes,
	}
	if s.Was.Kind == vfs.FileKind {
		e.Was = &record.Was{Size: s.Was.Size, Modified: s.Was.ModifiedMs}
	}
	if s.Content != nil && c.op.Kind == membrane.OpReplace {
		e.Version, e.Size = s.Content.Version().String(), s.Content.Size()
	}
	begin := func() *record.Intent { return c.host.record.Intend(e) }
	if inPlace(c.op) && used == nil {
		c.span = c.host.spans.join(c.op, begin)
		return c.span.intent.Wait, nil
	}
	c.host.spans.before(c.op)
	e.Ask = approved
	c.intent = begin()
	if used == nil {
		return c.intent.Wait, nil
	}
	return func() error { return cmp.Or(used(), c.intent.Wait()) }, nil
}

func (c *change) end(e vfs.Effect, err error) {
	if c.span != nil {
		c.host.spans.leave(c.span, c.op, e, err)
	}
	if c.intent == nil || c.intent.Wait() != nil {
		return
	}
	c.intent.End(record.Outcome{Bytes: e.Bytes, Nodes: e.Nodes, Err: err})
}

// lineage returns the grant or share whose meter is m, and those that it is shared from.
func (h *Host) lineage(m *meter.Meter) []record.Holder {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.residents.byMeter[m].lineage()
}
