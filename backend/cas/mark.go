package cas

import (
	"context"
	"crypto/sha256"

	"capd/vfs"
)

// marks are the blobs below roots.
type marks struct {
	blobs       map[[sha256.Size]byte]struct{}
	directories map[Digest]struct{} // directories whose nodes are marked
}

func newMarks() *marks {
	return &marks{map[[sha256.Size]byte]struct{}{}, map[Digest]struct{}{}}
}

func (m *marks) has(hash [sha256.Size]byte) bool {
	_, ok := m.blobs[hash]
	return ok
}

// mark marks everything below root, each directory once. visit, if not nil, gets each
// directory when it is marked. bad gets each directory that cannot be read; an error
// from it ends the marking.
func (m *marks) mark(ctx context.Context, b Blobs, root Digest, visit func(*directory) error, bad func(Digest, error) error) error {
	pending := []Digest{root}
	for len(pending) > 0 {
		d := pending[len(pending)-1]
		pending = pending[:len(pending)-1]
		if _, ok := m.directories[d]; ok {
			continue
		}
		m.directories[d] = struct{}{}
		m.blobs[d.Hash] = struct{}{}
		here, err := readDirectory(ctx, b, d)
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if err != nil {
			if err := bad(d, err); err != nil {
				return err
			}
			delete(m.directories, d) // it may be put again
			continue
		}
		for i := range here.nodes {
			switch n := &here.nodes[i]; n.kind {
			case vfs.FileKind:
				m.blobs[n.digest.Hash] = struct{}{}
			case vfs.DirKind:
				pending = append(pending, n.digest)
			}
		}
		if visit != nil {
			if err := visit(here); err != nil {
				return err
			}
		}
	}
	return nil
}

// complete answers notFound when root is not stored, and corrupt when something below
// it is missing or a directory is damaged.
func (s *Store) complete(ctx context.Context, root Digest) error {
	if _, err := readDirectory(ctx, s, root); err != nil {
		return err
	}
	visit := func(here *directory) error {
		var files []Digest
		for i := range here.nodes {
			if here.nodes[i].kind == vfs.FileKind {
				files = append(files, here.nodes[i].digest)
			}
		}
		missing, err := s.Missing(ctx, files)
		if err == nil && len(missing) > 0 {
			err = lost(errNoBlob)
		}
		return err
	}
	return newMarks().mark(ctx, s, root, visit, func(_ Digest, err error) error { return lost(err) })
}
