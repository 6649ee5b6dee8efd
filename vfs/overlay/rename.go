package overlay

import (
	"cmp"
	"context"

	"capd/vfs"
)

// Rename implements vfs.Dir.
func (d *dir) Rename(ctx context.Context, name string, dst vfs.Dir, newName string, from, to vfs.If) error {
	if err := vfs.CheckName(name); err != nil {
		return err
	}
	if err := d.o.checkNew(newName, vfs.FileKind); err != nil {
		return err
	}
	into, ok := dst.(*dir)
	if !ok || into.o != d.o {
		return vfs.CrossDevice
	}
	return d.o.change(ctx, func(ctx context.Context) (*step, error) {
		s, err := d.spot(ctx, name)
		if err != nil {
			return nil, err
		}
		defer s.close()
		t, err := into.spot(ctx, newName)
		if err != nil {
			return nil, taken(err)
		}
		defer t.close()
		if err := s.conditional(ctx, from); err != nil {
			return nil, err
		}
		if s.kind == gone {
			return nil, vfs.NotFound
		}
		if err := d.o.checkNew(newName, s.kind); err != nil {
			return nil, err
		}
		if err := s.checkLeave(ctx, false); err != nil {
			return nil, err
		}
		if err := s.fits(ctx, t, to); err != nil {
			return nil, err
		}
		if s.same(t) {
			return &step{}, nil
		}
		return s.moves(ctx, t)
	})
}

func (s *spot) same(t *spot) bool { return s.dir == t.dir && s.name == t.name }

// fits returns an error unless the node at s may move to t.
func (s *spot) fits(ctx context.Context, t *spot, to vfs.If) error {
	s.ref.o.mu.RLock()
	inside := s.kind == vfs.DirKind && s.node != nil && t.dir.isWithin(s.node)
	s.ref.o.mu.RUnlock()
	switch {
	case inside:
		return vfs.ErrIntoItself
	case s.same(t):
		return t.conditional(ctx, to)
	case t.kind == gone:
		return cmp.Or(t.meets(ctx, to), s.checkDepth(t))
	case t.kind != vfs.FileKind, s.kind == vfs.DirKind, to.Is.IsZero():
		return vfs.Exists
	}
	return t.meets(ctx, to)
}

// maxMoved is how many names a path may have after a directory was moved. That is enough for
// every move of what can be opened. By further moves there could be paths of any length, which
// nobody can open, and which make slow whatever looks at all changes.
const maxMoved = 2 * vfs.MaxDepth

var errMoved = vfs.Errorf(vfs.Limit, "paths in it would have more than %d names there; move it to a place further up", maxMoved)

// checkDepth answers limit for the move of a directory further down, from s to t, after
// which a changed path has more than maxMoved names.
func (s *spot) checkDepth(t *spot) error {
	if s.kind != vfs.DirKind || s.node == nil {
		return nil
	}
	s.ref.o.mu.RLock()
	defer s.ref.o.mu.RUnlock()
	depth := t.dir.depth()
	if depth > s.dir.depth() && s.node.tall(maxMoved-1-depth) {
		return errMoved
	}
	return nil
}

// moves plans the move of the node at s to t.
func (s *spot) moves(ctx context.Context, t *spot) (*step, error) {
	st := &step{}
	if t.kind != gone {
		grows, err := t.leaves(ctx)
		if err != nil {
			return nil, err
		}
		st.grows, st.sync = grows, true
	}
	edits, err := t.remember(ctx)
	if err != nil {
		return nil, err
	}
	home := !s.through && s.node.below && t.below && s.node.origin == t.implied
	var away []edit
	if s.through {
		if s.kind == vfs.DirKind {
			edits = append(edits, edit{Do: move, Path: raw(s.path), To: raw(t.path)})
		} else {
			edits = append(edits, sets(t.path, state{Kind: s.kind, Below: true, Origin: raw(s.implied)}))
		}
		away = []edit{knows(s.implied, base{moved: true}), sets(s.path, state{Kind: gone})}
	} else {
		if home && s.kind != vfs.DirKind {
			edits = append(edits, edit{Do: drop, Path: raw(t.path)})
		} else {
			edits = append(edits, edit{Do: move, Path: raw(s.path), To: raw(t.path)})
		}
		if away, err = s.vacate(ctx); err != nil {
			return nil, err
		}
		if home {
			away = append(away, edit{Do: forget, Path: raw(t.implied)})
		}
	}
	now := nowMs()
	st.edits = append(append(edits, away...), touches(s.parent, now), touches(t.parent, now))
	return st, nil
}
