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
		return cmp.Or(t.meets(ctx, to), s.checkLength(t))
	}
	if err := to.Displaces(t.kind, s.kind); err != nil {
		return err
	}
	switch t.kind {
	case vfs.FileKind:
		return t.meets(ctx, to)
	case vfs.DirKind:
		if err := foundIn(ctx).emptyIn(t); err != nil {
			return err
		}
		return cmp.Or(t.checkLeave(ctx, true), s.checkLength(t))
	}
	return nil
}

// moved bounds the paths to changes after a directory was moved. No more than a path's
// length in bytes can be opened or applied, and every move of what can be opened has no more
// names. By further moves there could be paths of any length, which make slow, and large,
// whatever looks at all changes.
var moved = extent{names: 2 * vfs.MaxDepth, bytes: 1 + vfs.MaxPath}

var errMoved = vfs.Errorf(vfs.Limit, "paths in it would have more than %d names, or more than %d bytes, there; move it to a place further up",
	moved.names, vfs.MaxPath)

// checkLength answers limit for the move of a directory from s to t that makes paths to
// changes longer, and longer than moved.
func (s *spot) checkLength(t *spot) error {
	if s.kind != vfs.DirKind || s.node == nil {
		return nil
	}
	s.ref.o.mu.RLock()
	defer s.ref.o.mu.RUnlock()
	from, to := s.dir.extent().under(s.name), t.dir.extent().under(t.name)
	below := s.node.reaches(extent{moved.names - to.names, moved.bytes - to.bytes})
	if to.names > from.names && to.names+below.names > moved.names || to.bytes > from.bytes && to.bytes+below.bytes > moved.bytes {
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
