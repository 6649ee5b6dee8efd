// Package membrane puts a tree behind gates and guards. Whoever holds the result cannot
// remove them.
//
// A [Gate] switches a capability, and everything derived from it, on and off. A [Guard] is
// a policy on paths. [Guarded] returns a view of a tree. Every node reached through a view
// is a view, and no function returns the node behind a view.
package membrane

import (
	"context"
	"sync/atomic"

	"capd/meter"
	"capd/vfs"
)

// Guarded returns d behind a membrane. Every operation on it, and on every node reached
// through it, passes gate and then guards, the first outermost. If gate is nil the view
// gets a new gate that nobody controls. The view takes over d; the caller keeps its
// reference to gate. A view cannot be unwrapped.
//
// Membranes flatten: [ReadOnlyDir], [vfs.Walk] and [RevocableDir] derive views of the same
// membrane. A view has one gate and one list of guards, however long the chain.
func Guarded(d vfs.Dir, gate *Gate, guards ...Guard) vfs.Dir {
	if gate == nil {
		gate = NewGate()
	} else {
		gate.retain()
	}
	set := newGuardSet(guards)
	if _, composed := d.(Composed); composed { // each of its trees has a bulkhead
		set.bulkhead = nil
	}
	return &dirView{view: view{guards: set, rules: set.root, mask: set.mask, base: gate, inner: newShared(d)}, dir: d}
}

// shared is an inner node with a count of the views that use it.
type shared struct {
	node vfs.Node
	refs atomic.Int64
}

func newShared(n vfs.Node) *shared { return new(shared).of(n) }

// of makes s the shared node n.
func (s *shared) of(n vfs.Node) *shared {
	s.node = n
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

// view is what directories, files and links behind a membrane have in common. It does
// not embed its inner node, so that a new method of [vfs.Node] cannot bypass the membrane.
type view struct {
	guards  *guardSet
	base    *Gate // the gate whose routes apply; the view holds a reference
	path    string
	rules   *rules                // at path, as they were when the view was made; see standing
	moved   atomic.Pointer[rules] // as they are since the policy was exchanged
	mask    mode                  // attenuations of this view
	leaf    bool                  // a file or a link
	turn    string                // see InTurn
	inner   *shared
	own     shared // what inner points to in a view of a node that was just found
	counted bool   // as an open node
	unseen  *unseen
	wide    bool // its reads are the host's own, for what whoever holds the capability may change; see Widened

	bound  atomic.Pointer[binding]
	reads  atomic.Pointer[count] // of what is read here; nil until then
	closed atomic.Bool
}

// binding is what a view found when it last looked: the gate that binds it, that gate's
// word, and what the place refuses besides.
type binding struct {
	gate *Gate
	word uint64
	more mode
}

// holds reports whether b is still what binds.
func (b *binding) holds() bool {
	return b.gate.word.Load() == b.word && (mode(b.word)&timed == 0 || b.more&expired != 0 || !b.gate.due())
}

func (b binding) mode() mode { return mode(b.word)&modeBits | b.more }

// bind returns the gate that binds the view, and its word now.
func (v *view) bind() binding {
	if b := v.bound.Load(); b != nil && b.holds() {
		return *b
	}
	b := v.bindAt(v.path)
	if b.more&expired != 0 {
		b.gate.Expire()
		b = v.bindAt(v.path)
	}
	v.bound.Store(&b)
	return b
}

// bindAt returns the binding of path, which is v's own path or below it.
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
	if at.due() {
		b.more |= expired
	}
	return b
}

// check returns an error unless the view has the rights in need.
func (v *view) check(need mode) error {
	if v.closed.Load() {
		if err := v.mode().refuse(0); err != nil {
			return err
		}
		return vfs.ErrClosed
	}
	return v.mode().refuse(need)
}

// mode is what the view refuses now.
func (v *view) mode() mode { return v.bind().mode() | v.mask }

// may is check for an operation with ctx. A batch that holds the gate passes even if
// the gate was shut since.
func (v *view) may(ctx context.Context, need mode) error {
	if restores(ctx) {
		return v.still()
	}
	if err := v.check(need); err != nil {
		if err = v.unlessHeld(ctx, need, err); err != nil {
			return err
		}
	}
	return v.ruled(need)
}

// still is may for what is taken back.
func (v *view) still() error {
	if v.closed.Load() {
		return vfs.ErrClosed
	}
	return (v.bind().mode() & lasting).refuse(0)
}

// unlessHeld returns err, the result of check, or what remains of it for such a batch.
func (v *view) unlessHeld(ctx context.Context, need mode, err error) error {
	if !v.closed.Load() {
		if b := v.bind(); heldBy(ctx, b.gate) {
			return (b.mode()&^heldModes | v.mask).refuse(need)
		}
	}
	return err
}

// look runs a read inside the guards. If the right that it needs is revoked meanwhile, it
// withholds the result.
func (v *view) look(ctx context.Context, kind OpKind, do func(context.Context) error) error {
	if err := v.may(ctx, kind.need()); err != nil {
		return err
	}
	err := v.guards.around(ctx, Op{Kind: kind, Path: v.path}, []*rules{v.standing()}, do)
	if late := v.may(ctx, kind.need()); late != nil {
		return late
	}
	return err
}

// Tries implements [vfs.Trier]. A guard may wait, even for a human, so a view with a guard
// around reads does not try.
func (v *view) Tries() bool { return len(v.guards.readArounds) == 0 && vfs.CanTry(v.inner.node) }

// Immutable implements [vfs.Immutable]: by attenuation, or because the inner node is.
func (v *view) Immutable() bool { return v.mask&changes == changes || vfs.IsImmutable(v.inner.node) }

// Stat serves every kind of view.
func (v *view) Stat(ctx context.Context) (vfs.Info, error) {
	if !v.guards.bare(v.standing()) {
		return answer(ctx, v, OpStat, v.inner.node.Stat)
	}
	if err := v.may(ctx, noMetadata); err != nil {
		return vfs.Info{}, err
	}
	info, err := v.stat(ctx)
	if late := v.may(ctx, noMetadata); late != nil {
		err = late
	}
	if err != nil {
		return vfs.Info{}, err
	}
	return info, nil
}

// stat asks the node inside the bulkhead.
func (v *view) stat(ctx context.Context) (vfs.Info, error) {
	in, err := v.guards.enter(ctx)
	if err != nil {
		return vfs.Info{}, err
	}
	defer in.exit()
	return v.inner.node.Stat(ctx)
}

// answer is look for a read with a result, which it withholds with an error.
func answer[T any](ctx context.Context, v *view, kind OpKind, do func(context.Context) (T, error)) (got T, err error) {
	err = v.look(ctx, kind, func(ctx context.Context) error {
		got, err = do(ctx)
		return err
	})
	if err != nil {
		var none T
		return none, err
	}
	return got, nil
}

// Close gives up the view's references. It works after a revoke.
func (v *view) Close() error {
	if v.closed.Swap(true) {
		return nil
	}
	v.inner.release()
	v.base.Release()
	if v.counted {
		v.meters().close(v.path)
	}
	return nil
}

// derive makes d a view of inner at path with the rules r, v's rights and v's base. It
// takes over inner even when it fails.
func (v *view) derive(d *view, inner *shared, path string, r *rules) error {
	return v.deriveAt(d, inner, path, r, v.base, v.mask)
}

// over returns by how much limits are raised for what is open: by any, if it is open for a batch that must be able to end.
func (v *view) over() int64 {
	if v.wide {
		return unlimited
	}
	return 0
}

// deriveAt is derive with another base and another mask. It takes a reference to base.
func (v *view) deriveAt(d *view, inner *shared, path string, r *rules, base *Gate, m mode) error {
	err := vfs.CheckPathSize(path)
	if err == nil {
		err = meters{base.meter, v.guards.meters}.take(meter.Nodes, openCost(path), v.over())
	}
	if err != nil {
		inner.release()
		return err
	}
	base.retain()
	d.guards, d.base, d.path, d.rules, d.mask, d.inner, d.turn, d.counted, d.wide = v.guards, base, path, r, m, inner, v.turn, true, v.wide
	if d.unseen == nil {
		d.unseen = v.unseen
	}
	return nil
}

// wrap returns a view of the node n found at path in v, with the rules r. It takes over
// n.
func (v *dirView) wrap(n vfs.Node, path string, r *rules) (vfs.Node, error) {
	switch n := n.(type) {
	case vfs.Dir:
		d := &dirView{dir: n}
		if err := v.derive(&d.view, d.own.of(n), path, r); err != nil {
			return nil, err
		}
		return d, nil
	case vfs.File:
		f := &fileView{file: n}
		f.leaf = true
		if err := v.derive(&f.view, f.own.of(n), path, r); err != nil {
			return nil, err
		}
		return f, nil
	case vfs.Link:
		l := &linkView{link: n}
		l.leaf = true
		if err := v.derive(&l.view, l.own.of(n), path, r); err != nil {
			return nil, err
		}
		return l, nil
	}
	n.Close()
	return nil, vfs.Errorf(vfs.Internal, "a store answered a node of an unknown kind")
}
