package vfs

import (
	"context"
	"errors"
)

// PathLooker is a Dir that can look up several names at once. It then asks its storage
// fewer times than [Dir].Lookup of one name after another does. See [LookPath].
type PathLooker interface {
	// LookPath returns the node at names: the first in this directory, each of the
	// others in the directory before it. There is at least one name, and at most
	// [MaxLooked]. LookPath follows no link. It answers what Lookup of each name in turn
	// would answer. Where it cannot tell that, it answers ErrStepwise, for instance if
	// a link is on the way, or anything that is no directory.
	LookPath(ctx context.Context, names []string) (Node, error)
}

// MaxLooked is the most names that one call of LookPath looks up. A walk that must not
// wait (see [Trying]) looks up at most as many.
const MaxLooked = 16

// ErrStepwise is the error of a LookPath that cannot look up its names at once. The
// caller then looks the names up one by one. The error has no code.
var ErrStepwise = errors.New("vfs: look the names up one by one")

// LookPath looks up names below d at once if d is a [PathLooker]. Otherwise it answers
// [ErrStepwise].
func LookPath(ctx context.Context, d Dir, names []string) (Node, error) {
	if p, ok := d.(PathLooker); ok && len(names) > 0 {
		return p.LookPath(ctx, names)
	}
	return nil, ErrStepwise
}
