// Package overlay provides copy-on-write over any tree. Changes are kept in an upper
// store, and the lower tree stays as it is.
//
// The overlay looks like a plain store. What is not changed reads through to the lower
// tree, even if that tree changes. What is removed is hidden. A directory of the lower
// tree moves whole, at the cost of one record. A host sees the changes with
// [Overlay.Diff] and [Overlay.Patch], makes them in the lower tree with
// [Overlay.Apply], all or none, or drops them with [Overlay.Revert].
//
// The upper store holds written contents, one file each in data/, and the file index,
// to which every other change is appended. A durable upper store gives the same overlay
// after a restart. A change of names, and what Replace and Sync answered for, is as safe
// as Replace and Sync of the upper store. A change that was being written when the
// process died was not made.
//
// Writes count in a [vfs.Commit] as in a plain store. The first write in place to a
// file of the lower tree also declares the bytes that it copies, so nobody copies more
// than the quota could store.
package overlay

import (
	"context"
	"sync"
	"time"

	"capd/vfs"
)

// Options configure an overlay.
type Options struct {
	Name string // of the lower tree; batch.Recover asks for it

	// Nodes bounds how many nodes the overlay records that are not at their lower
	// place, and how many lower places it records. 0 means [DefaultNodes]. A change
	// beyond it answers quota.
	Nodes int

	Rules Rules // nil forbids nothing
}

// DefaultNodes is the default of Options.Nodes.
const DefaultNodes = 1 << 16

// Overlay is a tree of changes over a lower tree. Its methods are for the host; a guest
// only gets [Overlay.Root]. They may be called from several goroutines at once.
type Overlay struct {
	lower, upper vfs.Dir
	name         string
	rules        Rules
	contents     contents
	index        index
	flusher      flusher

	// turn is held to change the tree, from the plan to the end of the commit, and
	// wherever the tree must not change. Reading does not need it. Work that grows with
	// the size of a file or a directory is done before or after; see found.
	turn   chan struct{}
	copies copies

	trash []*content // contents that have left the tree: added while turn is held, removed after it

	// mu guards the tree and bases. No store is called under it, except while Apply
	// changes the lower tree.
	mu       sync.RWMutex
	root     *node
	resting  resting
	bases    map[string]base
	recorded int // recorded nodes
	bound    int // of recorded, and of bases
}

// New returns an overlay over lower. upper must be empty, or hold what an earlier New
// over the same tree wrote. The overlay takes over both, and nobody else may write to
// upper. If an Apply was cut short, call batch.Recover on its journal first.
//
// New answers invalid if upper holds anything else, and corrupt if it is damaged. It
// has then taken over nothing.
func New(ctx context.Context, lower, upper vfs.Dir, options Options) (*Overlay, error) {
	o := &Overlay{lower: lower, upper: upper, name: options.Name, rules: options.Rules,
		turn: make(chan struct{}, 1), copies: newCopies(), bound: options.Nodes}
	if o.bound <= 0 {
		o.bound = DefaultNodes
	}
	o.clear()
	err := o.load(ctx)
	if err == nil {
		err = o.resume(ctx)
	}
	if err == nil {
		err = o.reserve(ctx)
	}
	if err != nil {
		o.contents.close()
		o.index.close()
		return nil, err
	}
	return o, nil
}

// clear removes all changes from the tree.
func (o *Overlay) clear() {
	o.root = &node{kind: vfs.DirKind, below: true}
	o.bases = map[string]base{}
}

// Root returns the whole tree. Each call returns a new reference.
func (o *Overlay) Root() vfs.Dir {
	return &dir{&ref{o: o, in: &place{node: o.root}, kind: vfs.DirKind}}
}

// Close waits for a change under way, and closes both stores.
func (o *Overlay) Close() error {
	o.turn <- struct{}{}
	defer o.end()
	o.contents.close()
	o.flusher.mu.Lock()
	defer o.flusher.mu.Unlock()
	o.index.close()
	err := o.upper.Close()
	if lower := o.lower.Close(); err == nil {
		err = lower
	}
	return err
}

// begin takes the turn.
func (o *Overlay) begin(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	select {
	case o.turn <- struct{}{}:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// end gives up the turn. Then it removes the contents that have left the tree, which
// takes longer the larger they are.
func (o *Overlay) end() {
	trash := o.trash
	o.trash = nil
	<-o.turn
	for _, c := range trash {
		o.contents.remove(context.Background(), c)
	}
}

// step is a change that a plan found possible.
type step struct {
	grows  vfs.Effect // how much it adds to the tree
	copies int64      // bytes that it also copies from the lower tree
	edits  []edit
	sync   bool              // it must be durable when it is made
	was    vfs.Info          // of a file that is changed
	whole  vfs.StagedContent // what is staged; nil unless a whole file is put
	made   func()            // may be nil; called under mu when the edits are made

	// write, if not nil, writes in place before the edits are made. It returns by how
	// many bytes the content grew.
	write func(ctx context.Context) (int64, error)
}

// change makes the change that plan returns. plan runs while no other change does, and
// may run more than once. A change of names is on disk when change returns.
func (o *Overlay) change(ctx context.Context, plan func(context.Context) (*step, error)) error {
	line := int64(0)
	err := o.inTurn(ctx, func(ctx context.Context) error {
		st, err := plan(ctx)
		if err == nil {
			err = o.fits(st.edits)
		}
		if err != nil {
			return err
		}
		if vfs.NeedsReady(ctx) {
			return st.ready()
		}
		if err = o.changeNow(ctx, st); err == nil && st.names() {
			line = o.flusher.newest.Load()
		}
		return err
	})
	if err != nil || line == 0 {
		return err
	}
	return o.flush(ctx, line)
}

// most is by how much st can grow what is stored.
func (st *step) most() vfs.Effect {
	return vfs.Effect{Bytes: st.grows.Bytes + st.copies, Nodes: st.grows.Nodes}
}

// ready has somebody answer for st, with no turn held. Then st has to be planned again.
func (st *step) ready() error {
	ready := vfs.Staged{Grows: st.most(), Content: st.whole, Was: st.was}
	return &unknown{find: func(ctx context.Context) error { return vfs.Ready(ctx, ready) }}
}

// names reports whether st changes names and has not been written to disk.
func (st *step) names() bool { return len(st.edits) > 0 && !st.sync && st.write == nil }

// changeNow makes st. The caller holds the turn.
func (o *Overlay) changeNow(ctx context.Context, st *step) error {
	return vfs.Commit(ctx, st.most(), func() (vfs.Effect, error) {
		inner := inside(context.WithoutCancel(ctx))
		if st.write != nil {
			if grown, err := st.write(inner); err != nil {
				return vfs.Effect{Bytes: grown}, err
			}
		}
		if err := o.make(inner, st.edits, st.sync, st.made); err != nil {
			return vfs.Effect{}, err
		}
		return st.grows, nil
	})
}

// make makes edits, first in the index and then in the tree. made, if not nil, is
// called under mu. The caller holds the turn.
func (o *Overlay) make(ctx context.Context, edits []edit, sync bool, made func()) error {
	if len(edits) == 0 {
		return nil
	}
	if err := o.record(ctx, edits, sync); err != nil {
		return err
	}
	o.mu.Lock()
	freed := o.edit(edits)
	if made != nil {
		made()
	}
	o.mu.Unlock()
	if len(freed) > 0 && (sync || o.index.sync(ctx) == nil) { // otherwise a lost record would refer to them
		o.trash = append(o.trash, freed...)
	}
	o.compact(ctx)
	return nil
}

// look locks mu to read the tree.
func (o *Overlay) look(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if !vfs.IsTrying(ctx) {
		o.mu.RLock()
	} else if !o.mu.TryRLock() {
		return vfs.ErrWouldBlock
	}
	return nil
}

// ready answers ErrWouldBlock if ctx must not wait and n, a node of another store,
// cannot try.
func ready(ctx context.Context, n vfs.Node) error {
	if vfs.IsTrying(ctx) && !vfs.CanTry(n) {
		return vfs.ErrWouldBlock
	}
	return nil
}

// inside returns ctx for calls to the upper store. It drops the values of ctx: those
// concern the overlay's changes, not how they are stored.
func inside(ctx context.Context) context.Context { return bare{ctx} }

type bare struct{ context.Context }

func (bare) Value(any) any { return nil }

func nowMs() int64 { return time.Now().UnixMilli() }
