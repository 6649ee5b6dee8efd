package git

import (
	"context"
	"errors"

	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/object"
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
		raw, err := s.objects.readAs(next[0], plumbing.CommitObject, maxMeta)
		if errors.Is(err, plumbing.ErrObjectNotFound) {
			continue
		} else if err != nil {
			return false, err
		}
		c := &object.Commit{}
		if err := c.Decode(memoryObject(plumbing.CommitObject, raw)); err != nil {
			return false, corrupt(next[0], "is no commit that can be read")
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
