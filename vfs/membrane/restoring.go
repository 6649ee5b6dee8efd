package membrane

import (
	"context"

	"capd/vfs"
)

// Restoring returns ctx for taking back what was changed with ctx, which [Hold] has returned. Whoever changed it was answered for
// then, so until the release nothing is asked again: no right, no rule, no guard, no limit of a meter, and no gate that was shut since.
// Guards still run around a change, to count it, but whatever they answer it is made. What remains is what the stores answer, and
// that a mount has come to cover a path.
//
// Whoever has such a context can change everything behind the membranes. It is not for guests. Without a Hold it is ctx.
func Restoring(ctx context.Context) context.Context {
	b := batchOf(ctx)
	if b == nil {
		return ctx
	}
	call := vfs.CallOf(ctx)
	call.Batch = &batch{commit: b.commit, asked: b.asked, outer: b, restores: true}
	return vfs.WithCall(ctx, call)
}

// restores reports whether ctx is that of [Restoring], and its batch is under way.
func restores(ctx context.Context) bool {
	b := batchOf(ctx)
	return b != nil && b.restores && b.UnderWay()
}

// lasting are the refusals that not even taking back passes: there is nothing any more at that path that could be taken back.
const lasting = hidden | gone

// surely runs a change that is taken back inside guards, whatever they answer.
func (s *guardSet) surely(ctx context.Context, op Op, arounds []around, do func(context.Context) error) error {
	made, failed := false, error(nil)
	_, _ = step(ctx, op, arounds, func(ctx context.Context) error {
		made, failed = true, do(ctx)
		return failed
	})
	if !made {
		failed = do(ctx)
	}
	return failed
}
