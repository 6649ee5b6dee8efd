package membrane

import (
	"cmp"
	"context"

	"capd/vfs"
)

// target is the source or the target of a change: a path below a view's gate.
type target struct {
	view  *view
	path  string
	rules *rules // at path
	need  mode
	// moves says that the node at path itself is removed or replaced, so neither it nor
	// anything below may be a controlled route.
	moves bool
	// compared says that a read of what the condition is about was approved; see compares.
	compared bool
}

// refused returns what the view's gate, or the policy on the path, has against the
// change. It is asked before anything is staged.
func (t target) refused(ctx context.Context) error {
	if restores(ctx) {
		_, _, err := t.allowed(ctx)
		return err
	}
	a, err := t.asked(ctx)
	if err != nil {
		return err
	}
	for i := range checks {
		if err := checks[i].ask(a); err != nil {
			return err
		}
	}
	return nil
}

// asked is a target whose change checks are asked about.
type asked struct {
	target
	ctx  context.Context
	mode mode
	busy error
}

func (t target) asked(ctx context.Context) (a asked, err error) {
	b, busy, err := t.bind()
	if err != nil {
		return a, err
	}
	m, _ := t.mode(ctx, b)
	return asked{t, ctx, m, busy}, nil
}

// checks are what is asked before a change, in this order. The first error is the answer.
// [Explain] asks the same.
var checks = [...]struct {
	about string
	ask   func(asked) error
}{
	{AboutGate, func(a asked) error { return a.mode.refuse(0) }},
	{AboutRights, func(a asked) error { return a.mode.refuse(a.need &^ changes) }},
	{AboutWithheld, asked.withheld},
	{AboutRule, func(a asked) error { return a.ruled(a.ctx) }},
	{AboutRights, func(a asked) error { return a.mode.refuse(a.need) }},
	{AboutControl, func(a asked) error { return a.busy }},
}

func (a asked) withheld() error {
	if a.view.guards.hides(a.rules) {
		return vfs.Denied
	}
	return nil
}

// allowed returns the gate and word to commit with. held says that ctx belongs to a
// batch under way there and that the gate was shut since.
func (t target) allowed(ctx context.Context) (b binding, held bool, err error) {
	b, busy, err := t.bind()
	if err != nil {
		return b, false, err
	}
	m, held := t.mode(ctx, b)
	return b, held, cmp.Or(m.refuse(t.need), busy)
}

// mode is what forbids the change now. If ctx belongs to a batch that holds b's gate,
// refusals that wait for the batch are left out, and held is true.
func (t target) mode(ctx context.Context, b binding) (m mode, held bool) {
	m = b.mode() | t.view.mask
	if restores(ctx) {
		return m & lasting, true
	}
	if m.refuse(t.need) != nil && heldBy(ctx, b.gate) {
		return m&^heldModes | t.view.mask, true
	}
	return m, false
}

func (t target) bind() (b binding, busy, err error) {
	if t.view.closed.Load() {
		return b, nil, t.view.check(0)
	}
	g := t.view.base
	g.tree.mu.Lock()
	defer g.tree.mu.Unlock()
	if t.moves && g.controlled(t.path) {
		busy = vfs.Errorf(vfs.Busy, "the host controls this, or something below it; it cannot be removed, renamed or overwritten here")
	}
	return t.view.bindLocked(t.path), busy, nil
}

// change runs a change inside v's guards. The caller has checked refused
// for every target. The commit enters the gate of each target. account returns what the
// change is worth to v's meters, given what it is to the store; nil means the same.
func (v *view) change(ctx context.Context, op Op, account func(vfs.Effect) vfs.Effect, targets []target, do func(context.Context) error) error {
	op.asks = vfs.CallOf(ctx).Bound != nil && !vfs.Asked(ctx)
	if op.asks || vfs.Asked(ctx) {
		do = whileBound(do, targets...)
	}
	if len(v.guards.arounds) > 0 {
		op.stored = &stored{}
		if v.guards.asked(ctx, op) {
			op.Batch = InBatch
		}
	}
	ctx = v.committing(ctx, op, account, targets)
	op.targets = targets
	ends := make([]*rules, len(targets))
	for i, t := range targets {
		ends[i] = t.rules
	}
	return v.guards.around(ctx, op, ends, do)
}

// committing returns ctx for a change. Its commit enters the gate of each target, and
// counts in v's meters.
func (v *view) committing(ctx context.Context, op Op, account func(vfs.Effect) vfs.Effect, targets []target) context.Context {
	asked := ctx
	call := vfs.CallOf(ctx)
	call.OnCommit(func(e vfs.Effect, change func() (vfs.Effect, error)) (vfs.Effect, error) {
		c := &commit{kind: op.Kind, path: op.Path, done: make(chan struct{})}
		defer close(c.done)
		for _, t := range targets {
			for {
				b, held, err := t.allowed(asked)
				if err != nil {
					return vfs.Effect{}, err
				}
				if held {
					break // a revoke waits for the batch
				}
				if b.gate.enter(c, b.word) {
					defer b.gate.leave(c)
					break
				}
			}
		}
		for _, t := range targets { // now: whoever exchanges the rules waits for what has entered
			if err := t.exchanged(asked); err != nil {
				return vfs.Effect{}, err
			}
		}
		return change()
	})
	meters, outer := v.meters(), call.Stage
	for m := range meters.all {
		var also *stored
		if m == meters.gate {
			also = op.stored
		}
		if restores(asked) {
			call.OnCommit(counts(m, account, also))
		} else {
			call.OnCommit(commits(m, account, also))
		}
	}
	if v.guards.feed != nil && !v.unseen.is() {
		op.targets = targets
		call.OnCommit(v.guards.made(op, account))
	}
	if restores(asked) {
		call.Stage = nil
	} else if meters.gate != nil || len(meters.guards) > 0 {
		call.Stage = func(n int64) (func(), error) { return meters.stage(n, outer) }
		call.Dropped = meters.dropped(op.stored.dropped(call.Dropped))
	}
	return vfs.WithCall(ctx, call)
}
