package vfs

import "context"

// Recalling returns a context for one operation of one goroutine: what a Lookup with it sees of the node that it returns,
// that node's next Stat with it may answer, instead of looking again.
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

// Remember notes in ctx what a Lookup has seen of n, which it returns.
func Remember(ctx context.Context, n Node, info Info) {
	if r, ok := ctx.Value(recallKey{}).(*recalling); ok {
		r.node, r.info = n, info
	}
}

// Recall returns, once, what the last Lookup with ctx has seen, if it returned n.
func Recall(ctx context.Context, n Node) (Info, bool) {
	r, ok := ctx.Value(recallKey{}).(*recalling)
	if !ok || r.node != n {
		return Info{}, false
	}
	r.node = nil
	return r.info, true
}

// unrecalled is ctx for another goroutine.
func unrecalled(ctx context.Context) context.Context {
	return context.WithValue(ctx, recallKey{}, nil)
}

// forget has nothing recalled that was seen so far.
func forget(ctx context.Context) {
	if r, ok := ctx.Value(recallKey{}).(*recalling); ok {
		r.node = nil
	}
}
