package vfs

import "context"

// Effect is what a change does to what is stored: growth is positive.
type Effect struct {
	Bytes int64 // of file content
	Nodes int64 // files, directories and links
}

// Committer runs change, exactly once, or refuses without running it. It must
// not block before change and must not run anything that a guest, a hook, a
// human or a consumer supplies. It returns what change returned.
type Committer func(e Effect, change func() (Effect, error)) (Effect, error)

type committerKey struct{}

// OnCommit returns a context in which [Commit] runs through c. The committers
// already there stay outside c: they run first and finish last.
func OnCommit(ctx context.Context, c Committer) context.Context {
	outer, _ := ctx.Value(committerKey{}).(Committer)
	if outer == nil {
		return context.WithValue(ctx, committerKey{}, c)
	}
	return context.WithValue(ctx, committerKey{}, Committer(func(e Effect, change func() (Effect, error)) (Effect, error) {
		return outer(e, func() (Effect, error) { return c(e, change) })
	}))
}

// Commit is the only place where a store's change becomes visible: every
// backend makes every change inside it, with all staging done before. e is the
// most that the change can grow the store by; change returns what it came to.
// Commit asks every guard that the context carries (gates re-check here, and a
// revoke waits for a commit that has begun; quotas reserve e here) and answers
// the error of the first that refuses, without running change. Once begun,
// change takes no notice of the context's end.
func Commit(ctx context.Context, e Effect, change func() (Effect, error)) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if c, _ := ctx.Value(committerKey{}).(Committer); c != nil {
		_, err := c(e, change)
		return err
	}
	_, err := change()
	return err
}
