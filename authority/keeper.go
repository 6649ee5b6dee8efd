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
// and then how it ended. A change that concerns hooks, or that needs an approval, waits for them before. Calls that are
// refused, and reads, are counted. Without a record, approvals and hooks, and if nothing is kept, it does nothing.
func (h *Host) keeper() membrane.Guard {
	if h.record == nil && h.asks == nil && h.hooks == nil && h.mine {
		return membrane.Guard{}
	}
	g := membrane.Guard{Around: h.keep, Changes: true, Denied: h.denied, Staged: h.staged}
	if h.record != nil {
		g.Reads, g.Rested = &h.reads.Reads, h.spans.rest
	}
	if h.past != nil {
		g.History = past{h}
	}
	if h.asks != nil {
		g.AskRead, g.Stands, g.Waits = h.askRead, h.stands, h.waits
	}
	return g
}

// Own returns the guard that writes to the record, and tells guests, what the host itself changes in the tree.
func (h *Host) Own() membrane.Guard {
	if h.record == nil {
		return membrane.Guard{Feed: h.feed}
	}
	return membrane.Guard{Around: h.keepOwn, Changes: true, Feed: h.feed}
}

// keepOwn is keep for a change of the host's own, about which no hook is asked. A part of a change that is recorded as one is not
// recorded again.
func (h *Host) keepOwn(ctx context.Context, op membrane.Op, do func(context.Context) (vfs.Effect, error)) (vfs.Effect, error) {
	call := vfs.CallOf(ctx)
	if op.Batch == membrane.Ahead || call.Change != "" {
		return do(ctx)
	}
	c := &change{host: h, op: op, kept: h.keeping(ctx, op)}
	call.OnChange(c)
	call.Keep = c.keep()
	e, err := do(vfs.WithCall(ctx, call))
	c.end(e, err)
	return e, err
}

// keep runs one operation that changes something.
func (h *Host) keep(ctx context.Context, op membrane.Op, do func(context.Context) (vfs.Effect, error)) (vfs.Effect, error) {
	c := &change{host: h, op: op, trial: vfs.IsTrial(ctx)}
	if op.Batch == membrane.Ahead {
		if err := c.before(ctx); err != nil {
			return vfs.Effect{}, err
		}
		return do(ctx)
	}
	call := vfs.CallOf(ctx)
	if c.part = call.Change != ""; !c.part && !c.trial {
		c.kept = h.keeping(ctx, op)
	}
	call.OnChange(c)
	if op.Kind.Whole() {
		call.Change = op.Kind.String()
	}
	call.Keep = c.keep()
	ctx = vfs.WithCall(ctx, call)
	if err := c.before(ctx); err != nil {
		return vfs.Effect{}, err
	}
	e, err := do(ctx)
	c.end(e, err)
	return e, err
}

// change is a change of a guest's while it is made. It implements [vfs.Change].
type change struct {
	host   *Host
	op     membrane.Op
	why    []string       // it needs an approval; see asking.go
	kept   *keeping       // of what it displaces; nil keeps nothing
	intent *record.Intent // nil until it is ready
	span   *span          // of a write in place, instead
	hooks  []record.Hooked
	trial  bool    // see Host.Explain
	part   bool    // of a change of many paths, which is recorded as a whole
	rows   []int64 // in which it counts; see Host.charged
}

// Ready implements vfs.Change. An operation that the store refuses before it is ready leaves no entry.
func (c *change) Ready(ctx context.Context, s vfs.Staged) (finish func() error, err error) {
	approved, used, err := c.approved(ctx, s)
	c.rows = c.host.charged(c.op.By(), c.op.Path)
	if err != nil || c.host.record == nil || c.part {
		return used, err
	}
	e := record.Entry{
		Op: c.op.Kind.String(), Path: record.Path(c.op.Path), To: record.Path(c.op.To), Grants: c.host.lineage(c.op.By()),
		Bytes: s.Grows.Bytes, Nodes: s.Grows.Nodes, Hooks: c.hooks,
	}
	if s.Was.Kind == vfs.FileKind {
		e.Was = &record.Was{Size: s.Was.Size, Modified: s.Was.ModifiedMs}
	}
	if s.Content != nil && c.op.Kind == membrane.OpReplace {
		e.Version, e.Size = s.Content.Version().String(), s.Content.Size()
	}
	e.Changes, e.Paths = changesOf(s.Parts), len(s.Parts)
	if inPlace(c.op) && used == nil {
		c.span = c.host.spans.join(c.op, func() *span { return &span{entry: e, kept: c.kept} })
		c.span.begin(ctx, c.host, c.op, s)
		return c.span.intent.Wait, nil
	}
	c.host.spans.before(c.op)
	e.Ask = approved
	if c.kept != nil {
		c.kept.ready(ctx, c.op, s)
	}
	c.intent = c.host.intend(e, c.kept)
	if used == nil {
		return c.intent.Wait, nil
	}
	return func() error { return cmp.Or(used(), c.intent.Wait()) }, nil
}

// keep returns what a store is to give what it displaces.
func (c *change) keep() vfs.Keep {
	if c.kept == nil {
		return nil
	}
	return c.kept
}

func (c *change) end(e vfs.Effect, err error) {
	grew := c.op.Stored()
	if c.span != nil {
		c.host.spans.leave(c.span, c.op, e, err)
	}
	if c.intent == nil || c.intent.Wait() != nil { // a span may go on for long, and nothing finds out how it ended after a kill
		c.host.charge(c.rows, grew)
		if c.kept != nil && c.span == nil {
			c.kept.forget()
		}
		return
	}
	if c.kept != nil && err == nil {
		c.kept.left(c.op)
	}
	c.intent.End(record.Outcome{Bytes: e.Bytes, Nodes: e.Nodes, Err: err, Also: c.kept.ended(c.intent.ID(), err, adding(c.rows, grew))})
}

// lineage returns the grant or share whose meter is m, and those that it is shared from.
func (h *Host) lineage(m *meter.Meter) []record.Holder {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.residents.byMeter[m].lineage()
}
