package vfs

import "context"

// Recalling returns a context for one operation of one goroutine. The first Stat of a
// node that was looked up with that context may return what Lookup saw, instead of
// asking again.
func Recalling(ctx context.Context) context.Context {
	c := &callContext{Context: ctx, call: CallOf(ctx)}
	c.call.found = &c.own
	return c
}

// found is what the last Lookup of an operation saw.
type found struct {
	node Node // nil for nothing
	info Info
}

// Remember keeps info in ctx, for [Recall]. A Lookup calls it with the node n that it is
// about to return, and the Info that it saw.
func Remember(ctx context.Context, n Node, info Info) {
	if s := callOf(ctx).found; s != nil {
		s.node, s.info = n, info
	}
}

// Recall returns what the last Lookup with ctx passed to [Remember], if that Lookup
// returned n. It returns it only once.
func Recall(ctx context.Context, n Node) (Info, bool) {
	s := callOf(ctx).found
	if s == nil || s.node != n {
		return Info{}, false
	}
	s.node = nil
	return s.info, true
}

// Forget drops what [Remember] kept. Whatever may take time, or may change the node,
// calls it.
func Forget(ctx context.Context) {
	if s := callOf(ctx).found; s != nil {
		s.node = nil
	}
}
