package vfs

import "context"

// Effect is how much a change adds to what is stored. Negative values are removals.
type Effect struct {
	Bytes int64 // of file content
	Nodes int64 // files, directories and links
}

// Committer runs change exactly once, or refuses without running it. It returns what
// change returned. Before change it must not block. It must not run code that a guest,
// a hook, a human or a consumer supplies.
type Committer func(e Effect, change func() (Effect, error)) (Effect, error)

// OnCommit returns a context in which [Commit] runs through c. Committers that ctx has
// already stay outside c: they run first and finish last.
func OnCommit(ctx context.Context, c Committer) context.Context {
	call := CallOf(ctx)
	call.OnCommit(c)
	return WithCall(ctx, call)
}

// OnCommit adds in to the committers of c. It runs inside those that c has already.
func (c *Call) OnCommit(in Committer) {
	outer := c.Commit
	if outer == nil {
		c.Commit = in
		return
	}
	c.Commit = func(e Effect, change func() (Effect, error)) (Effect, error) {
		return outer(e, func() (Effect, error) { return in(e, change) })
	}
}

// Commit makes a store's change visible. Every backend makes every change inside Commit
// and nowhere else, and does all staging before it. e is the most by which the change
// can grow the store; change returns by how much it did.
//
// Commit asks every committer that the context carries. Gates check again here, and a
// revoke waits for a commit that has begun. Quotas reserve e here. If one refuses,
// Commit returns its error and does not run change. Once change has begun, the end of
// the context no longer matters.
//
// If the context carries a [Change] and the store did not call [Ready], Commit calls it
// first, and then waits for the disk.
func Commit(ctx context.Context, e Effect, change func() (Effect, error)) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	call := callOf(ctx)
	if call.answers != nil {
		if err := call.answers.ready(ctx, Staged{Grows: e, Late: true}); err != nil {
			return err
		}
	}
	if call.Commit != nil {
		_, err := call.Commit(e, change)
		return err
	}
	_, err := change()
	return err
}
