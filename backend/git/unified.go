package git

import (
	"context"
	"errors"
	"strings"

	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/filemode"

	"capd/vfs"
	"capd/vfs/unified"
)

// Unified returns a change as git diff shows it: in the unified format with three lines
// of context, or in git's binary format. whole is false if a content is too long, by
// [unified.MaxData] or [unified.MaxPatch]. For a change from [Store.Changes] it answers
// stale if the file has been written since.
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
	id := plumbing.NewHash(b.Hash)
	it := &item{entry: entry{id: id}}
	_, _, err := s.objects.kind(id)
	if errors.Is(err, plumbing.ErrObjectNotFound) {
		it, err = s.written(ctx, path, id)
	}
	if err != nil {
		return side, err
	}
	if it.data != nil {
		defer it.data.release()
	}
	if it.target != "" {
		side.Data = []byte(it.target)
		return side, nil
	}
	size, err := s.size(it)
	if side.Long = size > unified.MaxData; err != nil || side.Long {
		return side, err
	}
	text, err := s.text(ctx, it, unified.MaxData)
	side.Data = []byte(text)
	return side, err
}

// written returns what was written at path if it has this id. The caller releases its
// content.
func (s *Store) written(ctx context.Context, path string, id plumbing.Hash) (*item, error) {
	names, err := vfs.SplitPath(path)
	if err != nil {
		return nil, err
	}
	if err := s.look(ctx); err != nil {
		return nil, err
	}
	defer s.mu.RUnlock()
	it := s.root
	for _, name := range names {
		if it == nil || it.kind() != vfs.DirKind {
			return nil, errRewritten
		}
		d, err := s.directory(it)
		if err != nil {
			return nil, err
		}
		it = d.find(name)
	}
	switch {
	case it == nil:
	case it.target != "":
		if have, err := identify(ctx, plumbing.BlobObject, int64(len(it.target)), strings.NewReader(it.target)); err != nil || have == id {
			return it, err
		}
	case it.data != nil:
		if have := it.data.id.Load(); have != nil && *have == id {
			it.data.frozen.Store(true)
			it.data.hold()
			return it, nil
		}
	}
	return nil, errRewritten
}

var errRewritten = vfs.Errorf(vfs.Stale, "this was written again since; ask for the changes again")
