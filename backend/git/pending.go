package git

import (
	"context"

	"capd/vfs"
)

// Changed reports whether anything is written and not committed.
func (s *Store) Changed() bool {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.isChanged()
}

// isChanged is Changed for a caller that holds s.mu for reading.
func (s *Store) isChanged() bool { return s.root.dir != nil && s.root.dir.isChanged() }

// Discard drops everything written since the last commit, new directories included.
func (s *Store) Discard(ctx context.Context) error {
	if !s.writable {
		return vfs.ReadOnly
	}
	s.committing.Lock()
	defer s.committing.Unlock()
	return s.change(ctx, func(int) (step, error) {
		if s.root.dir == nil {
			return step{apply: func() error { return nil }}, nil
		}
		grows, err := s.undone(s.root.dir)
		return step{grows: grows, apply: func() error {
			s.root.dir.drop()
			s.rebase(s.base)
			return nil
		}}, err
	})
}

// drop drops everything that was written in d.
func (d *directory) drop() {
	for _, it := range d.over {
		switch {
		case it == nil:
		case it.data != nil:
			it.data.release()
		case it.dir != nil:
			it.dir.drop()
		}
	}
}

// undone returns by how much the tree grows when what was written in d is dropped.
// Needs s.mu for reading.
func (s *Store) undone(d *directory) (grows vfs.Effect, err error) {
	add := func(e vfs.Effect, sign int64) {
		grows.Bytes += sign * e.Bytes
		grows.Nodes += sign * e.Nodes
	}
	for name, it := range d.over {
		was, had := d.tree.find(name)
		if had && it != nil && it.dir != nil && it.id == was.id {
			e, err := s.undone(it.dir)
			if err != nil {
				return grows, err
			}
			add(e, 1)
			continue
		}
		if had {
			e, err := s.weight(&item{entry: was})
			if err != nil {
				return grows, err
			}
			add(e, 1)
		}
		if it != nil {
			e, err := s.weight(it)
			if err != nil {
				return grows, err
			}
			add(e, -1)
		}
	}
	return grows, nil
}

// weight returns the size of an item and everything below it. Needs s.mu for reading.
func (s *Store) weight(it *item) (w vfs.Effect, err error) {
	w.Nodes = 1
	switch it.kind() {
	case vfs.FileKind:
		w.Bytes, err = s.size(it)
	case vfs.DirKind:
		d, err := s.directory(it)
		if err != nil {
			return w, err
		}
		for below := range d.all() {
			e, err := s.weight(below)
			if err != nil {
				return w, err
			}
			w.Bytes += e.Bytes
			w.Nodes += e.Nodes
		}
	}
	return w, err
}
