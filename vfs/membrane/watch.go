package membrane

import (
	"context"
	"sync"

	"capd/vfs"
)

// OnRevoke calls f once: with revoked or expired when n is revoked or expires, or with
// stale when n's tree is unmounted. If that has happened already it calls f at once. f
// must not block. stop cancels. For a node behind no membrane f is never called.
func OnRevoke(n vfs.Node, f func(error)) (stop func()) {
	var once sync.Once
	return onRevoke(n, func(err error) { once.Do(func() { f(err) }) })
}

// onRevoke is OnRevoke, but it may call f more than once.
func onRevoke(n vfs.Node, f func(error)) (stop func()) {
	switch n := n.(type) {
	case interface{ onRevoke(func(error)) func() }:
		return n.onRevoke(f)
	case Composed:
		return n.OnRevoke(f)
	}
	return func() {}
}

// onRevoke watches v's gate, and those of inner membranes.
func (v *view) onRevoke(f func(error)) (stop func()) {
	outer, inner := v.base.watch(v.path, f), onRevoke(v.inner.node, f)
	return func() {
		outer()
		inner()
	}
}

// whileBound also ends do when one of the targets is revoked or expires, and then
// returns that error. It is for work that may read a whole file whose result would be
// withheld anyway.
func whileBound(do func(context.Context) error, targets ...target) func(context.Context) error {
	return func(outer context.Context) error {
		ctx, cancel := context.WithCancelCause(outer)
		defer cancel(nil)
		for _, t := range targets {
			defer t.watch(outer, cancel)()
		}
		err := do(ctx)
		if err != nil && ctx.Err() != nil && outer.Err() == nil {
			return context.Cause(ctx)
		}
		return err
	}
}

// watch watches t's gate, unless ctx belongs to a batch that holds it.
func (t target) watch(ctx context.Context, f func(error)) (stop func()) {
	if restores(ctx) {
		return func() {}
	}
	return t.view.base.watch(t.path, func(err error) {
		if b := t.view.bindAt(t.path); !heldBy(ctx, b.gate) {
			f(err)
		}
	})
}

// watcher waits until what binds path below base is revoked or expires.
type watcher struct {
	base *Gate
	path string
	at   *Gate // which binds it now
	f    func(error)
}

// watch calls f once, when the gate that binds a view of base gate g at path is revoked
// or expires, or at once if it has been. f must not block. stop cancels.
func (g *Gate) watch(path string, f func(error)) (stop func()) {
	w := &watcher{base: g, path: path, f: f}
	g.tree.mu.Lock()
	if m := g.at(path).mode(); m&deadModes != 0 {
		g.tree.mu.Unlock()
		f(m.refuse(0))
		return func() {}
	}
	w.home()
	g.tree.mu.Unlock()
	return func() {
		g.tree.mu.Lock()
		delete(w.at.watchers, w)
		g.tree.mu.Unlock()
	}
}

// home adds w to the gate that binds it, unless that gate has left its tree. Needs
// tree.mu.
func (w *watcher) home() {
	if w.at != nil {
		delete(w.at.watchers, w)
	}
	w.at = w.base.at(w.path)
	if w.at.watchers == nil {
		w.at.watchers = map[*watcher]struct{}{}
	}
	w.at.watchers[w] = struct{}{}
}
