// Package worktree lets guests change a commit of a git repository, and the host commit
// what they changed.
//
// The changes wait in an overlay on the commit. Nothing of them is in the repository
// before [Tree.Commit]. While changes wait, the tree stays on its commit even if the
// repository's store follows a branch.
//
// Git keeps no directories without files. Such a directory exists in the tree, before
// and after a commit, but it is no change and in no commit.
package worktree

import (
	"context"

	"capd/backend/git"
	"capd/vfs"
	"capd/vfs/diff"
	"capd/vfs/overlay"
)

// maxNodes bounds how many nodes are changed and not committed.
const maxNodes = 1 << 20

// Tree is a commit with changes. Its methods are for the host; a guest only gets
// [Tree.Root]. They may be called from several goroutines at once.
type Tree struct {
	repo *git.Store
	over *overlay.Overlay
}

// New returns a tree that shows what repo shows. repo must have been opened Writable.
// upper keeps the changes: it must be empty, or hold what an earlier Tree of the same
// repository wrote. The Tree takes over both.
func New(ctx context.Context, repo *git.Store, upper vfs.Dir) (*Tree, error) {
	over, err := overlay.New(ctx, repo.Root(), upper, overlay.Options{Nodes: maxNodes, Rules: repo})
	if err != nil {
		return nil, err
	}
	repo.SetHold(over.Idle)
	return &Tree{repo, over}, nil
}

// Root returns the whole tree. Each call returns a new reference.
func (t *Tree) Root() vfs.Dir { return t.over.Root() }

// Repository returns the store of the repository.
func (t *Tree) Repository() *git.Store { return t.repo }

// Close drops changes that the upper store does not keep.
func (t *Tree) Close() error {
	err := t.over.Close()
	if closed := t.repo.Close(); err == nil {
		err = closed
	}
	return err
}

// Changed reports whether a commit would have another tree.
func (t *Tree) Changed(ctx context.Context) (bool, error) { return t.over.Any(ctx, isFile) }

// isFile reports whether a change is one of files or links, and not just of a directory.
func isFile(c diff.Change) bool {
	file := func(s diff.State) bool { return !s.Absent() && s.Kind != vfs.DirKind }
	return c.From != "" || file(c.Was) || file(c.Is)
}

// Diff returns what a commit would change: files and links, and moves of them and of
// directories. The Patch has the texts.
func (t *Tree) Diff(ctx context.Context) ([]diff.Change, *overlay.Patch, error) {
	return t.over.Files(ctx)
}

// Revert drops the changes at and below paths; nil means all. A move is reverted at both
// of its places or not at all. Its growth counts in ctx's committers.
func (t *Tree) Revert(ctx context.Context, paths []string) error { return t.over.Revert(ctx, paths) }

// Growth returns by how much the changes make the tree larger than the commit.
func (t *Tree) Growth(ctx context.Context) (vfs.Effect, error) { return t.over.Growth(ctx) }

// Commit commits all changes on top of the commit that the tree shows, and returns the
// new commit's id. The branch has the commit then, and both would survive a power cut.
// Guests can read meanwhile. What they write waits while the commit is completed, which
// is short: large contents have been read before. Commit answers what
// [git.Store.Prepare] and [git.Prepared.Make] answer; nothing has changed then.
func (t *Tree) Commit(ctx context.Context, o git.CommitOptions) (id string, err error) {
	return t.CommitIf(ctx, o, nil, nil)
}

// CommitIf is Commit unless check answers an error to what Diff returns, or ready answers
// one to the commit. ready is called when the commit is complete, and no branch has it yet.
// Guests' writes wait for it. Both may be nil.
func (t *Tree) CommitIf(ctx context.Context, o git.CommitOptions, check func([]diff.Change) error, ready func(*git.Prepared) error) (id string, err error) {
	c := &committer{repo: t.repo, options: o, ready: ready}
	if err := t.over.Commit(ctx, c, check); err != nil {
		return "", err
	}
	return c.made.ID, c.made.Sync()
}

// committer is an [overlay.Committer].
type committer struct {
	repo    *git.Store
	options git.CommitOptions
	ready   func(*git.Prepared) error // may be nil
	made    *git.Prepared
}

// Stage implements [overlay.Committer].
func (c *committer) Stage(ctx context.Context, changes []diff.Change) error {
	return c.repo.Stage(ctx, c.options, changes)
}

// Prepare implements [overlay.Committer].
func (c *committer) Prepare(ctx context.Context, changes []diff.Change) (commit func() error, err error) {
	if c.made, err = c.repo.Prepare(ctx, c.options, changes); err == nil && c.ready != nil {
		err = c.ready(c.made)
	}
	if err != nil {
		return nil, err
	}
	return c.made.Make, nil
}
