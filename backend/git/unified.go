package git

import (
	"context"

	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/filemode"

	"capd/vfs"
	"capd/vfs/unified"
)

// Unified returns a change as git diff shows it: in the unified format with three lines
// of context, or in git's binary format. whole is false if a content is too long, by
// [unified.MaxData] or [unified.MaxPatch].
func (s *Store) Unified(ctx context.Context, c Change) (text string, whole bool, err error) {
	defer func() { err = ambient(err) }()
	same := c.From.Hash == c.To.Hash
	from, to := unified.Side{Path: c.Path, Mode: c.From.Mode}, unified.Side{Path: c.Path, Mode: c.To.Mode}
	if !same {
		if from, err = s.side(ctx, c.Path, c.From); err != nil {
			return "", false, err
		}
		if to, err = s.side(ctx, c.Path, c.To); err != nil {
			return "", false, err
		}
	}
	text, whole = unified.Format(from, to, unified.InPlace, same)
	return text, whole, nil
}

func (s *Store) side(ctx context.Context, path string, b Blob) (unified.Side, error) {
	side := unified.Side{Path: path, Mode: b.Mode}
	switch {
	case b.Mode == unified.Nothing:
		return side, nil
	case !plumbing.IsHash(b.Hash):
		return side, vfs.Errorf(vfs.Invalid, "%q is no id of a blob", b.Hash)
	case b.Mode == uint32(filemode.Submodule):
		side.Data = []byte("Subproject commit " + b.Hash + "\n")
		return side, nil
	}
	e := entry{name: path, id: plumbing.NewHash(b.Hash)}
	size, err := s.blobs.size(e.id)
	if side.Long = size > unified.MaxData; err != nil || side.Long {
		return side, err
	}
	text, err := s.text(ctx, e, unified.MaxData)
	side.Data = []byte(text)
	return side, err
}
