package virtualfs

import (
	"context"

	"capd/vfs"
)

// Store is an opened store, as an [Opener] answers it. Fields that a store has no
// use for stay nil.
type Store struct {
	Root  func() vfs.Dir // a new reference at each call
	Close func() error   // called once, when nothing opened from it is used any more

	// Deny and Ask are patterns for a mount that does not say its own.
	Deny, Ask []string

	// Lasting says that the store is there again, under the same URL, in another
	// process: what was begun in it is then settled at the next start.
	Lasting bool

	// Fixed says that nothing in it can be changed.
	Fixed bool

	Detail func() string // for people
	Own    Own           // nil for a store that holds no changes of its own
}

// Own is a store that keeps what is written to it aside, until the host decides.
type Own interface {
	// Changed reports whether there are changes.
	Changed() bool
	// Diff yields what differs, in byte order of paths: what was written from what it
	// was written to, or one revision from another. It does not set Text.
	Diff(ctx context.Context, from, to string, yield func(Change) bool) error
	// Text is the unified text of a change that Diff yielded, at most [MaxText] bytes, and
	// what it lacks of the change, as in Change.Lacks.
	Text(ctx context.Context, c Change) (text, lacks string, err error)
	// Commit makes the changes permanent.
	Commit(ctx context.Context, c Commit) (string, error)
	// Revert drops the changes at and below paths (nil: all) and counts them. It
	// answers unsupported for a part where only the whole can be dropped.
	Revert(ctx context.Context, paths []string) (int, error)
}

// Opener opens what a URL names. Its errors are for the host.
type Opener func(ctx context.Context, u *URL) (*Store, error)
