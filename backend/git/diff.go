package git

import (
	"context"
	"io"
	"slices"
	"strings"

	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/filemode"

	"capd/vfs"
	"capd/vfs/diff"
	"capd/vfs/unified"
)

// Diff returns the differences between the trees of two revisions, in byte order of
// paths. A move is a removal and an addition. States have no versions, and no targets of
// links. Old and Content open blobs, of links too; they answer tooLarge for one longer than
// [unified.MaxData]. A revision is as in Options.Revision. It answers notFound, invalid.
func (s *Store) Diff(ctx context.Context, from, to string) (all []diff.Change, err error) {
	defer func() { err = ambient(err) }()
	var trees [2]plumbing.Hash
	for i, revision := range []string{from, to} {
		if revision == "" {
			revision = string(plumbing.HEAD)
		}
		_, id, err := s.resolve(revision)
		if err != nil {
			return nil, err
		}
		c, err := s.commit(id)
		if err != nil {
			return nil, err
		}
		trees[i] = c.tree
	}
	d := &differ{ctx: ctx, s: s}
	if err := d.trees("", trees[0], trees[1], 0); err != nil {
		return nil, err
	}
	slices.SortFunc(d.found, func(a, b diff.Change) int { return strings.Compare(a.Path, b.Path) })
	return d.found, nil
}

// differ is one comparison of trees.
type differ struct {
	ctx   context.Context
	s     *Store
	found []diff.Change
}

func (d *differ) trees(at string, from, to plumbing.Hash, depth int) error {
	switch {
	case from == to:
		return nil
	case depth > MaxDepth:
		return errDeep
	case d.ctx.Err() != nil:
		return d.ctx.Err()
	}
	old, err := d.s.tree(from)
	if err != nil {
		return err
	}
	now, err := d.s.tree(to)
	if err != nil {
		return err
	}
	for i, j := 0, 0; i < len(old.at) || j < len(now.at); {
		var a, b entry // a zero mode means nothing
		if i < len(old.at) {
			a = old.entry(old.at[i])
		}
		if j < len(now.at) {
			b = now.entry(now.at[j])
		}
		switch {
		case a.mode == 0 || b.mode != 0 && b.name < a.name:
			a = entry{}
			j++
		case b.mode == 0 || a.name < b.name:
			b = entry{}
			i++
		default:
			i++
			j++
		}
		if err := d.entries(at, a, b, depth); err != nil {
			return err
		}
	}
	return nil
}

// entries compares the entries of two trees at one name. Either may be zero.
func (d *differ) entries(at string, a, b entry, depth int) error {
	if a.mode == b.mode && a.id == b.id {
		return nil
	}
	path := vfs.Join(at, max(a.name, b.name))
	if a.mode == filemode.Dir || b.mode == filemode.Dir {
		var from, to plumbing.Hash
		if a.mode == filemode.Dir {
			from, a = a.id, entry{}
		}
		if b.mode == filemode.Dir {
			to, b = b.id, entry{}
		}
		if err := d.trees(path, from, to, depth+1); err != nil {
			return err
		}
	}
	c := diff.Change{Path: path, Was: a.state(), Is: b.state(), Old: d.s.opener(a), Content: d.s.opener(b)}
	if c.Was == c.Is && a.id == b.id {
		return nil
	}
	if c.Kind = diff.KindOf(c.Was, c.Is); c.Kind == diff.Mode && a.id != b.id {
		c.Kind = diff.Modified
	}
	d.found = append(d.found, c)
	return nil
}

func (e entry) state() diff.State {
	switch e.mode {
	case 0:
		return diff.State{}
	case filemode.Submodule:
		return diff.State{Kind: vfs.DirKind, Target: e.id.String()}
	}
	return diff.State{Kind: kindOf(e.mode), Exec: isExec(e.mode)}
}

// opener returns a function that opens the blob of e. It is nil if e has none.
func (s *Store) opener(e entry) func(context.Context) (io.ReadCloser, error) {
	if e.mode == 0 || e.mode == filemode.Submodule {
		return nil
	}
	return func(ctx context.Context) (io.ReadCloser, error) {
		size, err := s.blobs.size(e.id)
		if err != nil {
			return nil, ambient(err)
		}
		if size > unified.MaxData {
			return nil, errTooLarge
		}
		b, err := s.blobs.open(ctx, e.id)
		if err != nil {
			return nil, ambient(err)
		}
		return diff.Reader(vfs.NewContent(ctx, b, b.Size())), nil
	}
}
