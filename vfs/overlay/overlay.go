// Package overlay lays a tree of changes over another tree, which stays as it is:
// copy-on-write over any lower store, with what is written kept in an upper one.
//
// The overlay's tree cannot be told from a plain store's: what is not changed reads
// through to the lower tree, whatever becomes of it; what is removed is hidden; a
// directory of the lower tree moves whole, at the cost of one record. A host sees
// the changes with [Overlay.Diff] and [Overlay.Patch], and makes them in the lower
// tree with [Overlay.Apply], all or none, or drops them with [Overlay.Revert].
//
// The upper store holds the contents that were written, one file each in data/, and
// the file index, to which every other change is appended. An upper store that
// lasts gives the same overlay after a restart: what Replace and Sync answered for is
// as safe as the upper store's own Replace and Sync make it, and a change that was
// being written when the process died was not made.
//
// What is written counts in a [vfs.Commit] as it would in a plain store. The first
// write in place to a file of the lower tree also declares the bytes that it copies,
// so that nobody copies more than he could keep.
package overlay

import (
	"context"
	"strings"
	"sync"
	"time"

	"capd/vfs"
)

// Options are an overlay's circumstances.
type Options struct {
	Name string // of the lower tree, as batch.Recover will ask for it

	// Nodes bounds how many nodes the overlay keeps account of that are not where they
	// are in the lower tree, and of how many places there; 0 is [DefaultNodes]. A
	// change beyond it answers quota.
	Nodes int
}

// DefaultNodes is the bound on an overlay's nodes when none is given.
const DefaultNodes = 1 << 16

// Overlay is a tree of changes over a lower tree. Its methods are the host's; a guest
// has no more than [Overlay.Root]. They may be called from several goroutines at once.
type Overlay struct {
	lower, upper vfs.Dir
	name         string
	contents     contents
	index        index

	// turn is held to change the tree, from the plan to the end of the commit, and
	// where the tree must not change meanwhile. Reading needs no turn. Work that grows
	// with the size of a file or a directory is done before it or after; see found.
	turn   chan struct{}
	copies copies

	trash []*content // no longer in the tree: added with the turn held, removed after it

	// mu guards the tree and bases. Neither store is asked under it, but for the
	// moment in which Apply changes the lower tree.
	mu       sync.RWMutex
	root     *node
	bases    map[string]base
	recorded int // nodes that are
	bound    int // of recorded, and of bases
}

// New lays an overlay over lower. upper is empty, or what New wrote there before over
// the same tree. The overlay takes over both, and nobody else may write to upper. When
// an apply was cut short, batch.Recover has to have settled its journal before.
//
// It answers invalid for an upper that holds something else, and corrupt for one that
// is damaged; then it has taken over nothing.
func New(ctx context.Context, lower, upper vfs.Dir, options Options) (*Overlay, error) {
	o := &Overlay{lower: lower, upper: upper, name: options.Name,
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

// clear makes the tree one without changes.
func (o *Overlay) clear() {
	o.root = &node{kind: vfs.DirKind, below: true, children: map[string]*node{}}
	o.bases = map[string]base{}
}

// Root returns the whole tree. Each call returns a reference of its own.
func (o *Overlay) Root() vfs.Dir {
	return &dir{&ref{o: o, in: &place{node: o.root}, kind: vfs.DirKind}}
}

// Close waits for the change that is being made, and closes both stores.
func (o *Overlay) Close() error {
	o.turn <- struct{}{}
	defer o.end()
	o.contents.close()
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

// end gives the turn up, and then removes the contents that are no longer in the tree:
// removing takes as long as a content is large.
func (o *Overlay) end() {
	trash := o.trash
	o.trash = nil
	<-o.turn
	for _, c := range trash {
		o.contents.remove(context.Background(), c)
	}
}

// step is a change that was found to be possible.
type step struct {
	grows  vfs.Effect // what it comes to
	copies int64      // bytes that it copies from the lower tree beside
	edits  []edit
	sync   bool   // it has to last
	made   func() // if any, is called when the edits are made, under mu

	// write, if any, writes in place before the edits are made. It returns by how
	// much the content grew.
	write func(ctx context.Context) (int64, error)
}

// change makes the change that plan finds, which runs when no other change does, and
// may run more than once.
func (o *Overlay) change(ctx context.Context, plan func(context.Context) (*step, error)) error {
	return o.inTurn(ctx, func(ctx context.Context) error { return o.changeNow(ctx, plan) })
}

// changeNow is change with the turn held.
func (o *Overlay) changeNow(ctx context.Context, plan func(context.Context) (*step, error)) error {
	st, err := plan(ctx)
	if err != nil {
		return err
	}
	if err := o.fits(st.edits); err != nil {
		return err
	}
	most := vfs.Effect{Bytes: st.grows.Bytes + st.copies, Nodes: st.grows.Nodes}
	return vfs.Commit(ctx, most, func() (vfs.Effect, error) {
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

// make makes edits: first in the index, then in the tree. made, if any, is called under
// mu. The caller has the turn.
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
	if len(freed) > 0 && (sync || o.index.sync(ctx) == nil) { // or a lost record would miss them
		o.trash = append(o.trash, freed...)
	}
	o.compact(ctx)
	return nil
}

// look takes mu to look at the tree.
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

// ready answers ErrWouldBlock for a node of another store that cannot be asked by one
// who only tries.
func ready(ctx context.Context, n vfs.Node) error {
	if vfs.IsTrying(ctx) && !vfs.CanTry(n) {
		return vfs.ErrWouldBlock
	}
	return nil
}

// inside returns ctx for the upper store: what a caller's context carries is for the
// overlay's changes and not for how they are kept.
func inside(ctx context.Context) context.Context { return bare{ctx} }

type bare struct{ context.Context }

func (bare) Value(any) any { return nil }

func nowMs() int64 { return time.Now().UnixMilli() }

// split cuts a path before its last name.
func split(path string) (parent, name string) {
	if i := strings.LastIndexByte(path, '/'); i >= 0 {
		return path[:i], path[i+1:]
	}
	return "", path
}

// within reports whether path is at dir or below it.
func within(path, dir string) bool {
	return dir == "" || path == dir || strings.HasPrefix(path, dir) && path[len(dir)] == '/'
}
