package virtualfs

import (
	"context"

	"capd/operator"
	"capd/vfs"
	"capd/vfs/diff"
)

// Store is an opened store, as returned by an [Opener]. Fields that a store does not
// use stay nil.
type Store struct {
	Root func() vfs.Dir // returns a new reference
	// Close is called once, when nothing opened from it is used any more. The host waits
	// for it at most [membrane.Grace].
	Close func() error

	// Deny and Ask are the default patterns of a mount of this store.
	Deny, Ask []string

	// Lasting says that another process can open the store again with the same URL. If
	// this process dies during a batch, the next start recovers it.
	Lasting bool

	// Fixed says that nothing in it can be changed.
	Fixed bool

	// Base returns what the store shows, such as a commit, for a URL.Base. It is nil for
	// a store whose tree changes by itself.
	Base func() string

	// Kept says that changes that the store keeps are there after a restart. Grown is by
	// how much those that are there had made it grow when it was opened.
	Kept  bool
	Grown vfs.Effect

	Detail func() string // for people
	Own    Own           // nil for a store that does not keep changes of its own
}

// Own is a store that keeps changes until the host commits or reverts them.
type Own interface {
	// Changed reports whether there are changes.
	Changed() bool
	// Diff yields differences in byte order of paths: of the changes to what they are
	// based on, or of one revision to another. It leaves the text to the Text that it
	// yields with each.
	Diff(ctx context.Context, from, to string, yield func(diff.Change, Text) bool) error
	// Commit makes the changes permanent, and returns the id of the commit, unless check
	// refuses what Diff would yield. ready, too, can refuse: it gets the full name of the
	// branch and the id, before the branch has the commit.
	Commit(ctx context.Context, c operator.Commit, check func([]diff.Change) error, ready func(branch, id string) error) (string, error)
	// Has reports whether a branch has a commit, also in its history.
	Has(ctx context.Context, branch, id string) (bool, error)
	// Revert drops the changes at and below paths (nil: all) and returns their number.
	// It answers unsupported for a part where only everything can be dropped.
	Revert(ctx context.Context, paths []string) (int, error)
}

// Text returns the unified text of a change, at most [operator.MaxText] bytes, and what
// the text leaves out, as in diff.Change.Lacks.
type Text func(context.Context) (text, lacks string, err error)

// Opener opens the store that a URL names. Errors are for the host.
type Opener func(ctx context.Context, u *URL) (*Store, error)
