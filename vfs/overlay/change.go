package overlay

import (
	"context"

	"capd/vfs"
)

// Create implements vfs.Dir.
func (d *dir) Create(ctx context.Context, name string) (vfs.File, error) {
	if err := d.o.checkNew(name, vfs.FileKind); err != nil {
		return nil, err
	}
	if err := d.vacant(ctx, name); err != nil {
		return nil, err
	}
	c, err := d.o.contents.create(ctx)
	if err != nil {
		return nil, err
	}
	made, err := d.add(ctx, name, state{Kind: vfs.FileKind, Content: c.id})
	if made == nil {
		d.o.contents.remove(ctx, c)
	}
	if err != nil {
		return nil, err
	}
	return &file{made}, nil
}

// vacant returns the error that Create would, before anything is staged.
func (d *dir) vacant(ctx context.Context, name string) error {
	s, err := d.see(ctx, name)
	if err != nil {
		return taken(err)
	}
	defer s.close()
	if s.kind != gone {
		return vfs.Exists
	}
	return nil
}

// taken turns a lookup's error into one for a caller that wants to create: a node that
// cannot be opened still takes the name.
func taken(err error) error {
	if vfs.CodeOf(err) == vfs.NotRegular || vfs.CodeOf(err) == vfs.CrossDevice {
		return vfs.Exists
	}
	return err
}

// Mkdir implements vfs.Dir.
func (d *dir) Mkdir(ctx context.Context, name string) (vfs.Dir, error) {
	if err := d.o.checkNew(name, vfs.DirKind); err != nil {
		return nil, err
	}
	if err := d.checkDepth(); err != nil {
		return nil, err
	}
	made, err := d.add(ctx, name, state{Kind: vfs.DirKind, Ms: nowMs()})
	if err != nil {
		return nil, err
	}
	return &dir{made}, nil
}

// Symlink implements vfs.Symlinker.
func (d *dir) Symlink(ctx context.Context, name, target string) error {
	if err := d.o.checkNew(name, vfs.LinkKind); err != nil {
		return err
	}
	if err := vfs.CheckTarget(target); err != nil {
		return err
	}
	made, err := d.add(ctx, name, state{Kind: vfs.LinkKind, Target: raw(target), Ms: nowMs()})
	if err != nil {
		return err
	}
	return made.Close()
}

// add makes a node called name and returns a reference to it. If the node was made and
// there is an error all the same, the reference is closed.
func (d *dir) add(ctx context.Context, name string, n state) (made *ref, err error) {
	err = d.o.change(ctx, func(ctx context.Context) (*step, error) {
		s, err := d.spot(ctx, name)
		if err != nil {
			return nil, taken(err)
		}
		defer s.close()
		if s.kind != gone {
			return nil, vfs.Exists
		}
		edits, err := s.remember(ctx)
		if err != nil {
			return nil, err
		}
		edits = append(edits, sets(s.path, n), touches(s.parent, nowMs()))
		return &step{grows: vfs.Effect{Nodes: 1}, edits: edits, made: func() { made = d.child(name, n.Kind) }}, nil
	})
	if err != nil && made != nil {
		made.Close()
	}
	return made, err
}

// child returns a reference to the node called name in d. Needs mu.
func (d *dir) child(name string, kind vfs.Kind) *ref {
	r := &ref{o: d.o, in: d.in, name: name, kind: kind}
	if kind == vfs.DirKind {
		r.in, r.name = &place{parent: d.in, name: name, node: d.in.node.child(name)}, ""
	}
	r.in.node.refs.Add(1)
	return r
}

// Remove implements vfs.Dir.
func (d *dir) Remove(ctx context.Context, name string, c vfs.If) error {
	if err := vfs.CheckName(name); err != nil {
		return err
	}
	return d.o.change(ctx, func(ctx context.Context) (*step, error) {
		s, err := d.spot(ctx, name)
		if err != nil {
			return nil, err
		}
		defer s.close()
		if err := s.conditional(ctx, c); err != nil {
			return nil, err
		}
		switch s.kind {
		case gone:
			return nil, vfs.NotFound
		case vfs.DirKind:
			if err := foundIn(ctx).emptyIn(s); err != nil {
				return nil, err
			}
			if err := s.checkLeave(ctx, true); err != nil {
				return nil, err
			}
		}
		was, err := s.info(ctx)
		if err != nil {
			return nil, err
		}
		edits, err := s.remember(ctx)
		if err != nil {
			return nil, err
		}
		away, err := s.vacate(ctx)
		if err != nil {
			return nil, err
		}
		edits = append(append(edits, away...), touches(s.parent, nowMs()))
		return &step{grows: vfs.Effect{Bytes: -was.Size, Nodes: -1}, was: was, edits: edits}, nil
	})
}
