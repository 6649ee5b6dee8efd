package overlay

import (
	"context"

	"capd/vfs"
	"capd/vfs/diff"
)

// spot is a name in a directory where a change is planned, and what is there. The
// planner holds the turn, so the overlay does not change it.
type spot struct {
	lookedUp
	ref     *ref
	name    string
	dir     *node
	parent  string // path of the directory
	path    string
	through bool // it has no node, or one that reads through to its own path

	implied string // the lower path that it would read through to, if below
	below   bool
	base    base // of implied, if known
	known   bool

	looked *diff.State // what state returned
}

// spot looks up name for a change.
func (r *ref) spot(ctx context.Context, name string) (*spot, error) {
	seen, err := r.see(ctx, name)
	if err != nil {
		return nil, err
	}
	s, err := r.spotOf(name, seen)
	if err == nil && s.dir.below {
		err = r.checkDir(ctx, s.dir.origin)
	}
	if err != nil {
		seen.close()
		return nil, err
	}
	return s, nil
}

// spotOf returns the spot called name, where seen was looked up.
func (r *ref) spotOf(name string, seen lookedUp) (*spot, error) {
	r.o.mu.RLock()
	defer r.o.mu.RUnlock()
	dir, err := r.here()
	if err != nil {
		return nil, err
	}
	s := &spot{lookedUp: seen, ref: r, name: name, dir: dir, parent: dir.path()}
	s.path = vfs.Join(s.parent, name)
	s.through = s.node == nil || s.node.through()
	s.implied, s.below = dir.implied(name)
	if s.below {
		s.base, s.known = r.o.bases[s.implied]
	}
	return s, nil
}

// state returns the state of s, asking the lower tree itself. It asks once: the lower
// tree may change at any time, and the base that remember records must be the state
// that the condition was checked against and the copy was made from. Otherwise an
// Apply takes what came in between for what the change replaced.
func (s *spot) state(ctx context.Context) (diff.State, error) {
	switch {
	case s.looked != nil:
		return *s.looked, nil
	case s.lower != nil:
		state, err := foundIn(ctx).stateIn(ctx, s.origin, s.lower)
		if err == nil {
			s.looked = &state
		}
		return state, err
	case s.kind == vfs.DirKind && !s.through:
		return diff.State{Kind: vfs.DirKind}, nil
	}
	return diff.State{}, nil
}

// remember returns the edits that record the lower tree before s is changed: the base
// of s if it reads through, and the base of what the node at s reads through to.
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

// vacate returns the edits that empty s, so that nothing reads through there. s has
// been remembered.
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

// file returns the file at s, which s closes.
func (s *spot) file(ctx context.Context) (vfs.File, error) {
	if s.content != nil {
		return s.ref.o.contents.file(ctx, s.content)
	}
	if f, ok := s.lower.(vfs.File); ok {
		return f, nil
	}
	return nil, vfs.Stale
}

// info returns the Info of the file at s, as Stat has it; the zero Info if there is none.
func (s *spot) info(ctx context.Context) (info vfs.Info, err error) {
	if s.kind != vfs.FileKind {
		return info, nil
	}
	f, err := s.file(ctx)
	if err != nil {
		return info, err
	}
	if info, err = f.Stat(ctx); s.content != nil {
		info.Exec = s.exec
	}
	return info, err
}

// executable reports whether the file at s is executable.
func (s *spot) executable(ctx context.Context) (bool, error) {
	switch {
	case s.content != nil || s.lower == nil:
		return s.exec, nil
	case s.looked != nil:
		return s.looked.Exec, nil
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

// conditional is meets for a node to be removed or moved: only a file may have a
// condition.
func (s *spot) conditional(ctx context.Context, c vfs.If) error {
	if s.kind == gone || s.kind == vfs.FileKind {
		return s.meets(ctx, c)
	}
	if !c.IsZero() {
		return vfs.ErrNoVersion
	}
	return nil
}

// leaves returns by how much the tree grows when the node at s is removed.
func (s *spot) leaves(ctx context.Context) (vfs.Effect, error) {
	was, err := s.info(ctx)
	return vfs.Effect{Bytes: -was.Size, Nodes: -1}, err
}
