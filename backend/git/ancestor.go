package git

import (
	"context"
	"errors"

	"github.com/go-git/go-git/v5/plumbing"
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
