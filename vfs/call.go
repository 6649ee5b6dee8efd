package vfs

import "context"

// Call is what the context of a call says about that call, besides its end. A store does
// not read it: it uses [IsTrying], [Remember], [Recall], [Stage], [Ready], [Commit]
// and [SyncLater]. What wraps a store, such as a membrane, changes a copy and calls its store
// with [WithCall].
type Call struct {
	// Trying says that the call must not wait; see [Trying].
	Trying bool

	// Unasked says that nobody is to be asked; see [Unasked].
	Unasked bool

	// Commit runs the change that the call makes. Nil runs it directly. See [Commit].
	Commit Committer

	// Stage counts n bytes as staged. Nil counts nothing. See [Stage].
	Stage func(n int64) (unstage func(), err error)

	// Dropped is called when a staged directory is dropped, with the effect on the store:
	// Commit has counted what was made in the directory. It may be nil. See [StagedDir].
	Dropped func(Effect)

	// Batch is the batch of changes that the call belongs to, all of which are made or
	// none; nil for none. UnderWay reports whether it has not ended.
	Batch interface{ UnderWay() bool }

	// Change is the id of a recorded change that the call is a part of; "" if it is recorded by itself.
	Change string

	// Bulkhead bounds how many calls are inside the store; nil for no bound. It is set
	// only where work of the call may be left for later; see [Call.SyncsLater]. Run waits
	// for a slot and runs do. If it gets no slot it returns an error and does not
	// run do.
	Bulkhead interface {
		Run(ctx context.Context, do func(context.Context) error) error
	}

	// Bound is what an approval of the change holds for; nil if none is needed.
	Bound *Bound

	// Keep takes what the change displaces; nil keeps nothing.
	Keep Keep

	found   *found                  // by a Lookup; nil if the call does not recall
	later   *together               // what has to be synced; nil if nothing is left for later
	answers *answering              // nil if nobody answers for the change; see [Call.OnChange]
	aside   func(wait func()) error // nil gives up nothing; see [Call.OnAside]
	inParts bool                    // see [InParts]
}

// SyncsLater reports whether a change of names may return before it is on disk, since the
// caller syncs it later; see [SyncTogether].
func (c Call) SyncsLater() bool { return c.later != nil }

// Unseen returns c without what was remembered, for use in another goroutine; see
// [Recalling].
func (c Call) Unseen() Call {
	c.found = nil
	return c
}

type callKey struct{}

// callContext is a context with a call. The found of its call may point to own.
type callContext struct {
	context.Context
	call Call
	own  found
}

func (c *callContext) Value(key any) any {
	if key == (callKey{}) {
		return &c.call
	}
	return c.Context.Value(key)
}

var noCall Call

// callOf returns the call of ctx, which the caller does not change.
func callOf(ctx context.Context) *Call {
	if c, ok := ctx.Value(callKey{}).(*Call); ok {
		return c
	}
	return &noCall
}

// CallOf returns what ctx says about a call.
func CallOf(ctx context.Context) Call { return *callOf(ctx) }

// WithCall returns ctx with c in place of what it said about a call.
func WithCall(ctx context.Context, c Call) context.Context {
	return &callContext{Context: ctx, call: c}
}
