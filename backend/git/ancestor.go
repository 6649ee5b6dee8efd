package git

import (
	"context"
	"errors"

	"github.com/go-git/go-git/v5/plumbing"

	"capd/vfs"
)

// isAncestor reports whether the commit id is of, or in the history of of. A commit
// that a shallow clone lacks is in no history.
func (s *Store) isAncestor(ctx context.Context, id, of plumbing.Hash) (bool, error) {
	seen := map[plumbing.Hash]bool{of: true}
	for next := []plumbing.Hash{of}; len(next) > 0; next = next[1:] {
		if next[0] == id {
			return true, nil
		}
		if err := ctx.Err(); err != nil {
			return false, err
		}
		c, err := s.decode(next[0])
		if errors.Is(err, plumbing.ErrObjectNotFound) {
			continue
		} else if err != nil {
			return false, err
		}
		for _, parent := range c.ParentHashes {
			if !seen[parent] {
				seen[parent] = true
				next = append(next, parent)
			}
		}
	}
	return false, nil
}

// Has reports whether a branch, by its full name, has a commit, whose id is in hexadecimal. Errors are for the host.
func (s *Store) Has(ctx context.Context, branch, commit string) (bool, error) {
	if !validRef(branch) || !plumbing.IsHash(commit) {
		return false, vfs.Errorf(vfs.Invalid, "%q is no branch, or %q is no id of a commit", branch, commit)
	}
	_, now, err := s.refs.resolve(branch)
	if err != nil {
		return false, ambient(err)
	}
	has, err := s.isAncestor(ctx, plumbing.NewHash(commit), now)
	return has, ambient(err)
}
