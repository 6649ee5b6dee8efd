package vfs

import "context"

// Recalling returns a context for one operation of one goroutine. The first Stat of a
// node that was looked up with that context may return what Lookup saw, instead of
// asking again.
func Recalling(ctx context.Context) context.Context { return &recalling{Context: ctx} }

type recalling struct {
	context.Context
	node Node
	info Info
}

type recallKey struct{}

func (r *recalling) Value(key any) any {
	if key == (recallKey{}) {
		return r
	}
	return r.Context.Value(key)
}

// Remember notes in ctx the Info that a Lookup saw of n, the node it returns.
func Remember(ctx context.Context, n Node, info Info) {
	if r, ok := ctx.Value(recallKey{}).(*recalling); ok {
		r.node, r.info = n, info
	}
}

// Recall returns the Info that the last Lookup with ctx saw, if that Lookup returned n.
// It returns it once.
func Recall(ctx context.Context, n Node) (Info, bool) {
	r, ok := ctx.Value(recallKey{}).(*recalling)
	if !ok || r.node != n {
		return Info{}, false
	}
	r.node = nil
	return r.info, true
}

// unrecalled returns ctx for another goroutine.
func unrecalled(ctx context.Context) context.Context {
	return context.WithValue(ctx, recallKey{}, nil)
}

// forget drops what was remembered so far.
func forget(ctx context.Context) {
	if r, ok := ctx.Value(recallKey{}).(*recalling); ok {
		r.node = nil
	}
}
