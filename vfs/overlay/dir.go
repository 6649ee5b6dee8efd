package overlay

import (
	"context"

	"capd/vfs"
)

type dir struct{ *ref }

var (
	_ vfs.Dir       = (*dir)(nil)
	_ vfs.Symlinker = (*dir)(nil)
	_ vfs.Installer = (*dir)(nil)
	_ vfs.Trier     = (*dir)(nil)
	_ vfs.Searcher  = (*dir)(nil)

	_ vfs.Identifier = (*dir)(nil)
)

// Stat implements vfs.Node.
func (d *dir) Stat(ctx context.Context) (vfs.Info, error) {
	info := vfs.Info{Kind: vfs.DirKind}
	if err := d.o.look(ctx); err != nil {
		return vfs.Info{}, err
	}
	here, err := d.here()
	if err != nil {
		d.o.mu.RUnlock()
		return vfs.Info{}, err
	}
	info.ModifiedMs = here.modified
	path, below, holds := here.origin, here.below, here.holds()
	d.o.mu.RUnlock()
	if !below {
		return info, nil
	}
	err = d.beneath(ctx, path, holds, func(n vfs.Node) error {
		lower, err := n.Stat(ctx)
		info.ModifiedMs = max(info.ModifiedMs, lower.ModifiedMs)
		return err
	})
	if err != nil && !(holds && (missing(err) || replaced(err))) {
		return vfs.Info{}, err
	}
	return info, nil
}

// Identity implements vfs.Identifier. A directory that was made in the overlay has none
// before it is applied.
func (d *dir) Identity(ctx context.Context) (text string, err error) {
	if err := d.o.look(ctx); err != nil {
		return "", err
	}
	here, err := d.here()
	if err != nil {
		d.o.mu.RUnlock()
		return "", err
	}
	path, below, holds := here.origin, here.below, here.holds()
	d.o.mu.RUnlock()
	if !below {
		return "", vfs.Errorf(vfs.Unsupported, "this directory was made here and is not applied yet")
	}
	err = d.beneath(ctx, path, holds, func(n vfs.Node) error {
		lower, ok := n.(vfs.Dir)
		if !ok {
			return vfs.Stale
		}
		text, err = vfs.Identity(ctx, lower)
		return err
	})
	return text, err
}

// Lookup implements vfs.Dir.
func (d *dir) Lookup(ctx context.Context, name string) (vfs.Node, error) {
	if err := vfs.CheckName(name); err != nil {
		return nil, err
	}
	for {
		s, err := d.see(ctx, name)
		if err != nil {
			return nil, err
		}
		if s.kind == gone {
			return nil, vfs.NotFound
		}
		n, err := d.hold(ctx, name, &s)
		s.close()
		if n != nil || err != nil {
			return n, err
		}
	}
}

// hold returns a reference to the node seen as name, or nil if another node is there by
// now. It takes over what s has open.
func (d *dir) hold(ctx context.Context, name string, s *lookedUp) (vfs.Node, error) {
	if !vfs.IsTrying(ctx) {
		d.o.mu.Lock()
	} else if !d.o.mu.TryLock() {
		return nil, vfs.ErrWouldBlock
	}
	defer d.o.mu.Unlock()
	here, err := d.here()
	if err != nil {
		return nil, err
	}
	n := here.children[name]
	if s.node != n || n != nil && n.kind != s.kind && !n.through() {
		return nil, nil
	}
	r := d.child(name, s.kind)
	if s.lower != nil {
		r.window.add(s.origin, s.lower)
		s.lower = nil
	}
	switch s.kind {
	case vfs.DirKind:
		return &dir{r}, nil
	case vfs.FileKind:
		return &file{r}, nil
	}
	return &link{r}, nil
}
