package overlay

import (
	"context"

	"capd/vfs"
	"capd/vfs/batch"
)

// spot is a name in a directory where a change is planned, and what is there. Who
// plans has the turn, so that it stays so.
type spot struct {
	sight
	ref     *ref
	name    string
	dir     *node
	parent  string // the directory's path
	path    string
	through bool // it has no node, or one that reads through

	implied string // the lower path that it would read through to, if below
	below   bool
	base    base // of implied, if known
	known   bool
}

// spot looks at name for a change.
func (r *ref) spot(ctx context.Context, name string) (*spot, error) {
	seen, err := r.see(ctx, name)
	if err != nil {
		return nil, err
	}
	r.o.mu.RLock()
	defer r.o.mu.RUnlock()
	dir, err := r.here()
	if err != nil {
		seen.close()
		return nil, err
	}
	s := &spot{sight: seen, ref: r, name: name, dir: dir, parent: dir.path()}
	s.path = vfs.Join(s.parent, name)
	s.through = s.node == nil || s.node.through()
	s.implied, s.below = dir.implied(name)
	if s.below {
		s.base, s.known = r.o.bases[s.implied]
	}
	return s, nil
}

// state says what is at s, by the lower tree's own account.
func (s *spot) state(ctx context.Context) (batch.State, error) {
	switch {
	case s.lower != nil:
		return foundIn(ctx).stateIn(ctx, s.origin, s.lower)
	case s.kind == vfs.DirKind && !s.through:
		return batch.State{Kind: vfs.DirKind}, nil
	}
	return batch.State{}, nil
}

// remember is what has to be known of the lower tree before s is changed: what was
// at s if that read through, and what the node at s reads through to.
func (s *spot) remember(ctx context.Context) ([]edit, error) {
	var edits []edit
	if s.below && !s.known {
		state, err := s.state(ctx)
		if err != nil {
			return nil, err
		}
		edits = append(edits, knows(s.implied, base{state: state}))
	}
	if !s.through && s.node.below {
		state, err := s.state(ctx)
		if err != nil {
			return nil, err
		}
		edits = append(edits, knows(s.node.origin, base{state: state}))
	}
	return edits, nil
}

// vacate empties s, which is remembered: nothing reads through there.
func (s *spot) vacate(ctx context.Context) ([]edit, error) {
	away := edit{Do: drop, Path: raw(s.path)}
	switch {
	case !s.below:
		return []edit{away}, nil
	case s.known && !s.base.moved && s.base.state.Absent():
		n, err := s.ref.lookup(ctx, s.dir.origin, s.name, true)
		if missing(err) {
			return []edit{away, {Do: forget, Path: raw(s.implied)}}, nil
		}
		if err != nil && !replaced(err) {
			return nil, err
		}
		if err == nil {
			n.Close()
		}
	}
	return []edit{sets(s.path, state{Kind: gone})}, nil
}

// file returns the file at s, which stays s's.
func (s *spot) file(ctx context.Context) (vfs.File, error) {
	if s.content != nil {
		return s.ref.o.contents.file(ctx, s.content)
	}
	if f, ok := s.lower.(vfs.File); ok {
		return f, nil
	}
	return nil, vfs.Stale
}

// size is how long the file at s is, 0 where there is none.
func (s *spot) size(ctx context.Context) (int64, error) {
	if s.kind != vfs.FileKind {
		return 0, nil
	}
	f, err := s.file(ctx)
	if err != nil {
		return 0, err
	}
	info, err := f.Stat(ctx)
	return info.Size, err
}

// executable reports whether the file at s may be executed.
func (s *spot) executable(ctx context.Context) (bool, error) {
	if s.content != nil || s.lower == nil {
		return s.exec, nil
	}
	info, err := s.lower.Stat(ctx)
	return info.Exec, err
}

// meets answers conflict when c does not hold for the file at s, or for nothing there.
func (s *spot) meets(ctx context.Context, c vfs.If) error {
	if c.IsZero() || s.kind == gone || c.Absent {
		return c.Check(s.kind != gone, vfs.Version{})
	}
	v, err := foundIn(ctx).versionIn(ctx, s)
	if err != nil {
		return err
	}
	return c.Check(true, v)
}

// conditional is meets for what is removed or moved: only a file may have a condition.
func (s *spot) conditional(ctx context.Context, c vfs.If) error {
	if s.kind == gone || s.kind == vfs.FileKind {
		return s.meets(ctx, c)
	}
	if !c.IsZero() {
		return vfs.ErrNoVersion
	}
	return nil
}

// leaves is what the tree grows by when what is at s goes.
func (s *spot) leaves(ctx context.Context) (vfs.Effect, error) {
	size, err := s.size(ctx)
	return vfs.Effect{Bytes: -size, Nodes: -1}, err
}
