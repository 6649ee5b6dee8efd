package overlay

import (
	"context"
	"iter"
	"maps"
	"slices"

	"capd/vfs"
)

type dir struct{ *ref }

var (
	_ vfs.Dir       = (*dir)(nil)
	_ vfs.Symlinker = (*dir)(nil)
	_ vfs.Installer = (*dir)(nil)
	_ vfs.Trier     = (*dir)(nil)
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
	n, err := d.window.at(ctx, d.o, path)
	if err == nil {
		var lower vfs.Info
		if lower, err = n.Stat(ctx); err == nil {
			info.ModifiedMs = max(info.ModifiedMs, lower.ModifiedMs)
		}
	}
	if err != nil && !(holds && missing(err)) {
		return vfs.Info{}, err
	}
	return info, nil
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

// hold returns a reference to what was seen as name, or nil when it is something else
// by now. It takes over what s has open.
func (d *dir) hold(ctx context.Context, name string, s *sight) (vfs.Node, error) {
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
		r.window.open = map[string]vfs.Node{s.origin: s.lower}
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

// List implements vfs.Dir. What the overlay has of its own is as it was when the
// iteration began.
func (d *dir) List(ctx context.Context) iter.Seq2[vfs.Entry, error] {
	return func(yield func(vfs.Entry, error) bool) {
		if err := d.list(ctx, func(e vfs.Entry) bool { return yield(e, nil) }); err != nil {
			yield(vfs.Entry{}, err)
		}
	}
}

// list calls yield with each entry, until it answers false.
func (d *dir) list(ctx context.Context, yield func(vfs.Entry) bool) error {
	if err := d.o.look(ctx); err != nil {
		return err
	}
	here, err := d.here()
	if err != nil {
		d.o.mu.RUnlock()
		return err
	}
	own := map[string]vfs.Entry{}
	moved := map[string]bool{}
	for name, n := range here.children {
		if !n.through() || n.holds() {
			own[name] = vfs.Entry{Name: name, Kind: n.kind}
			moved[name] = n.below && n.kind != vfs.DirKind
		}
	}
	path, below, holds := here.origin, here.below, here.holds()
	d.o.mu.RUnlock()

	names := slices.Sorted(maps.Keys(own))
	// emit yields what the overlay has before the name end, or all.
	emit := func(end string, all bool) (bool, error) {
		for len(names) > 0 && (all || names[0] < end) {
			e := own[names[0]]
			names = names[1:]
			if err := ctx.Err(); err != nil {
				return false, err
			}
			if moved[e.Name] { // which may be gone from the lower tree
				s, err := d.see(ctx, e.Name)
				if err != nil {
					return false, err
				}
				s.close()
				e.Kind = s.kind
			}
			if e.Kind != gone && !yield(e) {
				return false, nil
			}
		}
		return true, nil
	}
	if below {
		n, err := d.window.at(ctx, d.o, path)
		if lower, ok := n.(vfs.Dir); ok && err == nil {
			for e, lerr := range lower.List(ctx) {
				if err = lerr; err != nil {
					break
				}
				if more, err := emit(e.Name, false); !more {
					return err
				}
				if _, ours := own[e.Name]; !ours && !yield(e) {
					return nil
				}
			}
		}
		if err != nil && !(holds && missing(err)) {
			return err
		}
	}
	_, err = emit("", true)
	return err
}
