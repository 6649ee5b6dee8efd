package git

import (
	"context"
	"slices"
	"strings"

	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/filemode"

	"capd/vfs"
)

// ChangeKind is the kind of a change.
type ChangeKind uint8

// The kinds of changes. A move is a removal and an addition.
const (
	Added ChangeKind = iota + 1
	Removed
	Modified    // content, executable bit, or both
	TypeChanged // between file, link and submodule
)

func (k ChangeKind) String() string {
	switch k {
	case Added:
		return "added"
	case Removed:
		return "removed"
	case Modified:
		return "modified"
	case TypeChanged:
		return "type changed"
	}
	return "unknown"
}

// Blob is the entry of a tree at a path.
type Blob struct {
	Mode uint32 // git's mode: 0o100644, 0o100755, 0o120000 for a link, 0o160000 for a submodule
	Hash string // hexadecimal id of a blob, or of a submodule's commit
}

// Change is the difference between two trees at a path that is not a directory.
type Change struct {
	Path     string
	Kind     ChangeKind
	From, To Blob // zero where there is nothing
}

// Diff returns the differences between the trees of two revisions, in byte order of
// paths. A revision is as in Options.Revision. It answers notFound, invalid.
func (s *Store) Diff(ctx context.Context, from, to string) (all []Change, err error) {
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
	slices.SortFunc(d.found, func(a, b Change) int { return strings.Compare(a.Path, b.Path) })
	return d.found, nil
}

// differ is one comparison of trees.
type differ struct {
	ctx   context.Context
	s     *Store
	found []Change
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
	c := Change{Path: path, Kind: Modified, From: a.blob(), To: b.blob()}
	switch {
	case a.mode == 0 && b.mode == 0:
		return nil
	case a.mode == 0:
		c.Kind = Added
	case b.mode == 0:
		c.Kind = Removed
	case a.mode&typeBits != b.mode&typeBits:
		c.Kind = TypeChanged
	}
	d.found = append(d.found, c)
	return nil
}

// typeBits are the bits of a mode that distinguish file, link and submodule.
const typeBits = 0o170000

func (e entry) blob() Blob {
	if e.mode == 0 {
		return Blob{}
	}
	return Blob{Mode: uint32(e.mode), Hash: e.id.String()}
}
