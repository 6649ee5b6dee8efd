package vfs

import (
	"context"
	"sync/atomic"
)

// Guarded returns d behind a membrane: every operation on it, and on every
// node reached through it, passes gate and then guards, the first outermost. A
// nil gate is a new one that nobody controls. The view takes over d, and gate's
// caller keeps its reference. There is no way to unwrap it.
//
// Membranes flatten: [ReadOnlyDir], [Walk] and [RevocableDir] derive views of the
// same membrane, with one gate and one list of guards however long the chain.
func Guarded(d Dir, gate *Gate, guards ...Guard) Dir {
	if gate == nil {
		gate = NewGate()
	} else {
		gate.retain()
	}
	w := newWorld(guards)
	if _, composed := d.(*nsDir); composed {
		w.bulkhead = nil
	}
	return &dirView{view: view{world: w, rules: w.root, base: gate, inner: newShared(d)}, dir: d}
}

// shared is an inner node with a count of the views that use it.
type shared struct {
	node Node
	refs atomic.Int64
}

func newShared(n Node) *shared {
	s := &shared{node: n}
	s.refs.Store(1)
	return s
}

func (s *shared) retain() *shared {
	s.refs.Add(1)
	return s
}

func (s *shared) release() {
	if s.refs.Add(-1) == 0 {
		s.node.Close()
	}
}

// view is what directories, files and links behind a membrane have in common.
// It names its inner node and embeds none, so that a new method of the waist
// does not slip past.
type view struct {
	world   *world
	base    *Gate // the gate whose routes apply; the view holds a reference
	path    string
	rules   rules // the world's, at path
	mask    mode  // attenuations of this view: noWrite
	leaf    bool  // a file or a link
	inner   *shared
	counted bool // as open

	bound  atomic.Pointer[binding]
	closed atomic.Bool
}

// binding is what was found when the view last looked: the gate that binds it,
// that gate's word, and what the place refuses besides.
type binding struct {
	gate *Gate
	word uint32
	more mode
}

func (b binding) mode() mode { return mode(b.word)&modeBits | b.more }

// bind returns the gate that binds the view and its word now.
func (v *view) bind() binding {
	if b := v.bound.Load(); b != nil && b.gate.word.Load() == b.word {
		return *b
	}
	b := v.bindAt(v.path)
	v.bound.Store(&b)
	return b
}

// bindAt looks up the gate that binds path, which is v's own or below it.
func (v *view) bindAt(path string) binding {
	g := v.base
	g.tree.mu.Lock()
	defer g.tree.mu.Unlock()
	return v.bindLocked(path)
}

// bindLocked is bindAt with tree.mu held.
func (v *view) bindLocked(path string) binding {
	at := v.base.at(path)
	b := binding{gate: at, word: at.word.Load()}
	if v.leaf && v.base.leads(path) {
		b.more = hidden
	}
	return b
}

// check answers whether the view allows what need is needed for.
func (v *view) check(need mode) error {
	if v.closed.Load() {
		if err := v.mode().refuse(0); err != nil {
			return err
		}
		return errClosed
	}
	return v.mode().refuse(need)
}

// mode is what the view refuses now.
func (v *view) mode() mode { return v.bind().mode() | v.mask }

// may is check for an operation with ctx: a batch that holds the gate passes it,
// although it was shut meanwhile.
func (v *view) may(ctx context.Context, need mode) error {
	if err := v.check(need); err != nil {
		return v.unlessHeld(ctx, need, err)
	}
	return nil
}

// unlessHeld is err, which check answered, or what remains of it for such a batch.
func (v *view) unlessHeld(ctx context.Context, need mode, err error) error {
	if !v.closed.Load() {
		if b := v.bind(); holds(ctx, b.gate) {
			return (b.mode()&^heldModes | v.mask).refuse(need)
		}
	}
	return err
}

// look runs a read inside the guards, and withholds its result when the right
// to it went meanwhile.
func (v *view) look(ctx context.Context, kind OpKind, do func(context.Context) error) error {
	if err := v.may(ctx, noRead); err != nil {
		return err
	}
	err := v.world.around(ctx, Op{Kind: kind, Path: v.path}, []rules{v.rules}, do)
	if late := v.may(ctx, noRead); late != nil {
		return late
	}
	return err
}

// target is one end of a change: a path below a view's gate.
type target struct {
	view  *view
	path  string
	rules rules // at path
	need  mode
	// moves: the node at path itself goes or is replaced by another, so that
	// neither it nor anything below may be under control of its own.
	moves bool
}

// refused answers, before anything is asked or staged, what the view's gate or
// the policy on the path has against the change.
func (t target) refused(ctx context.Context) error {
	b, busy, err := t.bind()
	if err != nil {
		return err
	}
	m, _ := t.mode(ctx, b)
	if err := m.refuse(t.need &^ noWrite); err != nil {
		return err
	}
	if t.view.world.hides(t.rules) {
		return Denied
	}
	return first(m.refuse(t.need), busy)
}

// allowed returns the gate and word to commit with. held says that ctx is of a
// batch that is under way there already, and that the gate was shut since.
func (t target) allowed(ctx context.Context) (b binding, held bool, err error) {
	b, busy, err := t.bind()
	if err != nil {
		return b, false, err
	}
	m, held := t.mode(ctx, b)
	return b, held, first(m.refuse(t.need), busy)
}

// mode is what speaks against the change now. Where it is refused and ctx is of a
// batch that holds b's gate, the batch passes what waits for it, and held is true.
func (t target) mode(ctx context.Context, b binding) (m mode, held bool) {
	m = b.mode() | t.view.mask
	if m.refuse(t.need) != nil && holds(ctx, b.gate) {
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
		busy = Errorf(Busy, "the host controls this, or something below it; it cannot be removed, renamed or overwritten here")
	}
	return t.view.bindLocked(t.path), busy, nil
}

// change runs a change inside the guards of v's world; refused has been asked
// for its targets. The commit enters the gate of each.
//
// account says what the change comes to in v's meters, given what the store
// says; nil for the same.
func (v *view) change(ctx context.Context, op Op, account func(Effect) Effect, targets []target, do func(context.Context) error) error {
	asked := ctx
	ctx = OnCommit(ctx, func(e Effect, change func() (Effect, error)) (Effect, error) {
		c := &commit{kind: op.Kind, path: op.Path, done: make(chan struct{})}
		defer close(c.done)
		for _, t := range targets {
			for {
				b, held, err := t.allowed(asked)
				if err != nil {
					return Effect{}, err
				}
				if held {
					break // the batch is what a revoke waits for
				}
				if b.gate.enter(c, b.word) {
					defer b.gate.leave(c)
					break
				}
			}
		}
		return change()
	})
	for m := range v.payers().all {
		ctx = OnCommit(ctx, commits(m, account))
	}
	ctx = onStage(ctx, v.payers())
	if len(v.world.arounds) > 0 && v.world.asked(ctx, op) {
		op.Batch = InBatch
	}
	ends := make([]rules, len(targets))
	for i, t := range targets {
		ends[i] = t.rules
	}
	return v.world.around(ctx, op, ends, do)
}

// Tries implements [Trier]. A guard may wait, for a human even, so that nothing is
// tried where one stands around what looks.
func (v *view) Tries() bool { return len(v.world.looks) == 0 && CanTry(v.inner.node) }

// Stat, for every kind of view.
func (v *view) Stat(ctx context.Context) (info Info, err error) {
	err = v.look(ctx, OpStat, func(ctx context.Context) error {
		info, err = v.inner.node.Stat(ctx)
		return err
	})
	if err != nil {
		return Info{}, err
	}
	return info, nil
}

// Close gives up the view's references. It works after a revoke.
func (v *view) Close() error {
	if v.closed.Swap(true) {
		return nil
	}
	v.inner.release()
	v.base.Release()
	if v.counted {
		v.payers().close(v.path)
	}
	return nil
}

// derive makes d a view of inner at path, where the rules are r, with v's rights and
// v's base. It takes over inner, also when it fails.
func (v *view) derive(d *view, inner *shared, path string, r rules) error {
	return v.deriveAt(d, inner, path, r, v.base, v.mask)
}

// deriveAt is derive with another base, which it retains, and another mask.
func (v *view) deriveAt(d *view, inner *shared, path string, r rules, base *Gate, m mode) error {
	err := CheckPathSize(path)
	if err == nil {
		err = payers{base.meter, v.world.meters}.open(path)
	}
	if err != nil {
		inner.release()
		return err
	}
	base.retain()
	d.world, d.base, d.path, d.rules, d.mask, d.inner, d.counted = v.world, base, path, r, m, inner, true
	return nil
}

// wrap returns a view of a node found at path in v, where the rules are r. It takes
// over n.
func (v *dirView) wrap(n Node, path string, r rules) (Node, error) {
	switch n := n.(type) {
	case Dir:
		d := &dirView{dir: n}
		if err := v.derive(&d.view, newShared(n), path, r); err != nil {
			return nil, err
		}
		return d, nil
	case File:
		f := &fileView{file: n}
		f.leaf = true
		if err := v.derive(&f.view, newShared(n), path, r); err != nil {
			return nil, err
		}
		f.parent, f.dir = v.inner.retain(), v.dir
		return f, nil
	case Link:
		l := &linkView{link: n}
		l.leaf = true
		if err := v.derive(&l.view, newShared(n), path, r); err != nil {
			return nil, err
		}
		return l, nil
	}
	n.Close()
	return nil, Errorf(Internal, "a store answered a node of no kind")
}
