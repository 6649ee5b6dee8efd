package memory

import (
	"context"
	"sync/atomic"

	"capd/vfs"
)

// stagedDir is a directory outside the tree.
type stagedDir struct {
	dir
	in     *dir
	name   string // in in, once it is placed
	placed atomic.Bool
}

var _ vfs.DirStager = (*dir)(nil)

// StageDir implements vfs.DirStager.
func (d *dir) StageDir(ctx context.Context, name string) (vfs.StagedDir, error) {
	if err := vfs.CheckNewName(name); err != nil {
		return nil, err
	}
	err := d.read(ctx, func(here *inode) error {
		if here.children[name] != nil {
			return vfs.Exists
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	s := &stagedDir{in: d, name: name}
	s.at = &place{store: d.at.store, node: newInode(vfs.DirKind)}
	return s, nil
}

// Place implements vfs.StagedDir.
func (s *stagedDir) Place(ctx context.Context) error {
	if s.placed.Load() {
		return vfs.Stale
	}
	err := s.in.add(ctx, s.name, s.at.node)
	s.placed.Store(err == nil)
	return err
}

// Drop implements vfs.StagedDir.
func (s *stagedDir) Drop(context.Context) vfs.Effect {
	st, n := s.at.store, s.at.node
	st.mu.Lock()
	defer st.mu.Unlock()
	if s.placed.Swap(true) { // or dropped before
		return vfs.Effect{}
	}
	e := st.free(n)
	e.Nodes++ // n itself was never counted
	st.used.Bytes += e.Bytes
	st.used.Nodes += e.Nodes
	n.parent = &inode{} // it is not the root of anything any more
	return e
}

// free gives up the contents of n and of everything below it. It returns by how much the
// tree shrinks. Needs s.mu.
func (s *Store) free(n *inode) vfs.Effect {
	e := n.removal()
	if n.kind == vfs.FileKind {
		s.detach(n.data)
	}
	for _, child := range n.children {
		below := s.free(child)
		e.Bytes += below.Bytes
		e.Nodes += below.Nodes
	}
	return e
}
