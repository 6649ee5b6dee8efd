package git

import (
	"context"

	"capd/vfs"
)

// Changed reports whether something is written and not committed.
func (s *Store) Changed() bool {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.isChanged()
}

// isChanged is Changed when s.mu is held, for reading at least.
func (s *Store) isChanged() bool { return s.root.dir != nil && s.root.dir.isChanged() }

// Discard undoes everything that was written since the last commit, and directories that
// were made with it.
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

// drop gives up everything that was written in d.
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

// undone is what the tree grows by when what was written in d is undone. s.mu is held,
// for reading at least.
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

// weight is how much is at an item: it and all below it. s.mu is held, for reading at
// least.
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
