package membrane

import (
	"context"
	"slices"
	"sync/atomic"

	"capd/vfs"
)

// Hold begins a batch of changes. It first asks whether each of ops may be made, and
// then enters every gate that they need, as one commit. If a gate or a guard refuses
// any op, Hold returns that error with the op's path, and holds nothing.
//
// Until release is called, a revoke, a lock or an unmount of what is held waits, as it
// does for any commit, and answers busy after Grace. Meanwhile changes through d with
// the returned context pass, even through a gate that was shut after Hold. Changes with
// any other context are refused at once. release may be called more than once.
//
// Hold uses Kind, Path and To of each op. Paths are relative to d, and links in them
// are not followed. Through a namespace the gates of its mounts are entered too. For a
// Dir behind no membrane Hold returns ctx unchanged.
//
// Hold checks each op against a guard's Hides, and runs its Around once with Batch
// [Ahead], a path from the guard's own root, and a do that succeeds and changes
// nothing. A guard may take its time there, since nothing is held yet. When the change
// is made, the guard sees it again with Batch [InBatch]. It should then allow it: the
// changes of the batch made before that one stay. A change at a path that Hold was not
// asked about is [Alone].
//
// Hold does not override an attenuation or a SetReadable(false). A change of the batch is
// also refused if a mount comes to cover its path, or if its route becomes controlled,
// after Hold.
func Hold(ctx context.Context, d vfs.Dir, ops []Op) (held context.Context, release func(), err error) {
	if !holds(d) {
		return ctx, func() {}, nil
	}
	if err := ctx.Err(); err != nil {
		return nil, nil, err
	}
	b := &batch{commit: &commit{batch: max(len(ops), 1), done: make(chan struct{})}, asked: map[guardedPath]bool{}, outer: batchOf(ctx)}
	if err := (&Holding{ctx: ctx, batch: b}).In(d, ops); err != nil {
		return nil, nil, err
	}
	if err := (&Holding{ctx: ctx, batch: b, enter: true}).In(d, ops); err != nil {
		b.release()
		return nil, nil, err
	}
	call := vfs.CallOf(ctx)
	call.Batch = b
	return vfs.WithCall(ctx, call), b.release, nil
}

// holds reports whether d is behind a membrane, or leads to one.
func holds(d vfs.Dir) bool {
	switch d.(type) {
	case *dirView, Composed:
		return true
	}
	return false
}

// Holding is a [Hold] under way, as a [Composed] directory sees it. First it asks whether
// the changes may be made, then it enters the gates that they need. In an [Explain] it
// only asks, also about a read of the directory itself, which has the path "".
type Holding struct {
	ctx     context.Context
	batch   *batch
	enter   bool
	explain *explaining
	why     *[]string // of an Asking; nil for none
	refuse  bool      // an Asking asks what is refused
	reads   bool      // only whether the paths may be read; see Holder.MayRead
}

// In asks about ops in d, or enters their gates. Paths are relative to d.
func (h *Holding) In(d vfs.Dir, ops []Op) error {
	switch d := d.(type) {
	case *dirView:
		switch {
		case h.explain != nil:
			return h.explain.in(d, h, ops)
		case h.why != nil:
			return d.asking(h, ops)
		case h.reads:
			return d.readable(h, ops)
		}
		if h.enter {
			return d.enter(h, ops)
		}
		return d.ask(h, ops)
	case Composed:
		return d.Hold(h, ops)
	}
	return nil
}

// batch is what a context carries of a Hold.
type batch struct {
	commit *commit
	gates  []*Gate // entered
	asked  map[guardedPath]bool
	outer  *batch
	over   atomic.Bool

	restores bool // outer is taken back; see [Restoring]
}

// guardedPath is a path behind a membrane.
type guardedPath struct {
	guards *guardSet
	path   string
}

// UnderWay reports whether b was not released.
func (b *batch) UnderWay() bool {
	if b.restores {
		return b.outer.UnderWay()
	}
	return !b.over.Load()
}

// batchOf returns the batch that ctx belongs to, or nil.
func batchOf(ctx context.Context) *batch {
	b, _ := vfs.CallOf(ctx).Batch.(*batch)
	return b
}

// heldModes are the refusals that a batch passes: the ones that wait for it, and its
// own expiry.
const heldModes = changes | revoked | expired | unmounted | ending

// heldBy reports whether ctx belongs to a batch that is under way at g.
func heldBy(ctx context.Context, g *Gate) bool {
	if g == nil {
		return false
	}
	for b := batchOf(ctx); b != nil; b = b.outer {
		if g.has(b.commit) {
			return true
		}
	}
	return false
}

// asked reports whether ctx belongs to a batch under way that Hold was asked op for.
func (s *guardSet) asked(ctx context.Context, op Op) bool {
	for b := batchOf(ctx); b != nil; b = b.outer {
		if b.UnderWay() && b.asked[guardedPath{s, op.Path}] && (op.To == "" || b.asked[guardedPath{s, op.To}]) {
			return true
		}
	}
	return false
}

func (b *batch) release() {
	if b.over.Swap(true) {
		return
	}
	for _, g := range slices.Backward(b.gates) {
		g.leave(b.commit)
	}
	close(b.commit.done)
}

// targets returns the places that op changes, seen from v.
func (v *dirView) targets(op Op) ([]target, error) {
	t, err := v.targetOf(op.Path, op.Kind.need(), op.Kind == OpRemove || op.Kind == OpRename)
	if err != nil || op.Kind != OpRename {
		return []target{t}, err
	}
	to, err := v.targetOf(op.To, needs[op.Kind].target, true)
	return []target{t, to}, err
}

func (v *dirView) targetOf(path string, need mode, moves bool) (target, error) {
	names, err := vfs.SplitPath(path)
	if err != nil {
		return target{}, vfs.At(path, err)
	}
	at := vfs.Join(v.path, path)
	if err := vfs.CheckPathSize(at); err != nil {
		return target{}, err
	}
	return target{view: &v.view, path: at, rules: v.standing().walk(names), need: need, moves: moves}, nil
}

// ask asks about ops, and notes in the batch those that may be made.
func (v *dirView) ask(h *Holding, ops []Op) error {
	for _, op := range ops {
		targets, err := v.targets(op)
		if err != nil {
			return err
		}
		if err := refusedAt(h.ctx, op, targets); err != nil {
			return err
		}
		here, ends := Op{Kind: op.Kind, Path: targets[0].path, Batch: Ahead}, []*rules{targets[0].rules}
		if len(targets) > 1 {
			here.To, ends = targets[1].path, append(ends, targets[1].rules)
		}
		needed, err := v.asks(vfs.InParts(h.ctx), here, targets...)
		if err == nil && needed {
			err = vfs.Asks(vfs.InParts(h.ctx), "")
		}
		if err == nil {
			err = v.guards.around(h.ctx, here, ends, func(context.Context) error { return nil })
		}
		if err != nil {
			return vfs.At(op.Path, err)
		}
		for _, t := range targets {
			h.batch.asked[guardedPath{v.guards, t.path}] = true
		}
	}
	return h.In(v.dir, ops)
}

// enter enters the gates that ops need. It asks no guard.
func (v *dirView) enter(h *Holding, ops []Op) error {
	for _, op := range ops {
		targets, err := v.targets(op)
		if err != nil {
			return err
		}
		for i, t := range targets {
			if err := h.batch.enter(h.ctx, t); err != nil {
				return vfs.At([]string{op.Path, op.To}[i], err)
			}
		}
	}
	return h.In(v.dir, ops)
}

func (b *batch) enter(ctx context.Context, t target) error {
	for {
		bound, _, err := t.allowed(ctx)
		if err != nil {
			return err
		}
		if bound.gate.has(b.commit) {
			return nil
		}
		if bound.gate.enter(b.commit, bound.word) {
			b.gates = append(b.gates, bound.gate)
			return nil
		}
	}
}
