package vfs

import (
	"context"
	"sync"
)

// OnRevoke calls f, once, when n is revoked or expires, with that error, or when
// the tree that it is in is unmounted, with stale; at once if it has been. f must not block. stop undoes it. For a node that is
// behind no membrane f is never called.
func OnRevoke(n Node, f func(error)) (stop func()) {
	w, ok := n.(watchable)
	if !ok {
		return func() {}
	}
	var once sync.Once
	return w.onRevoke(func(err error) { once.Do(func() { f(err) }) })
}

// watchable is a node that may be revoked. f may be called more than once.
type watchable interface {
	onRevoke(f func(error)) (stop func())
}

// onRevoke watches v's gate, and those of the membranes inside.
func (v *view) onRevoke(f func(error)) (stop func()) {
	outer := v.base.watch(v.path, f)
	w, ok := v.inner.node.(watchable)
	if !ok {
		return outer
	}
	inner := w.onRevoke(f)
	return func() {
		outer()
		inner()
	}
}

// whileBound makes do end, too, when what binds one of the targets is revoked or
// expires; it answers that then. It is for what may read a whole file, which
// nobody waits for when its result would be withheld.
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

// watch is as of t's gate, but nobody is told whose batch holds it.
func (t target) watch(ctx context.Context, f func(error)) (stop func()) {
	return t.view.base.watch(t.path, func(err error) {
		if b := t.view.bindAt(t.path); !holds(ctx, b.gate) {
			f(err)
		}
	})
}

// watcher is to be told when what binds path below base is revoked or expires.
type watcher struct {
	base *Gate
	path string
	at   *Gate // which binds it now
	f    func(error)
}

// watch calls f, once, when what binds a view of base gate g at path is revoked
// or expires; at once if it has been. f must not block. stop undoes it.
func (g *Gate) watch(path string, f func(error)) (stop func()) {
	w := &watcher{base: g, path: path, f: f}
	g.tree.mu.Lock()
	if m := mode(g.at(path).word.Load()); m&deadModes != 0 {
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

// home puts w at the gate that binds it. A gate that is gone tells nobody.
// tree.mu is held.
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
