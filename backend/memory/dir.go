package memory

import (
	"context"
	"iter"
	"sync/atomic"

	"capd/vfs"
)

type dir struct {
	at     *place
	closed atomic.Bool
}

var (
	_ vfs.Dir       = (*dir)(nil)
	_ vfs.Symlinker = (*dir)(nil)
	_ vfs.Installer = (*dir)(nil)
)

// here returns the directory at d's place. Needs store.mu.
func (d *dir) here() (*inode, error) {
	if d.closed.Load() {
		return nil, vfs.Stale
	}
	return d.at.directory()
}

// Close implements vfs.Node.
func (d *dir) Close() error {
	d.closed.Store(true)
	return nil
}

// Tries implements vfs.Trier.
func (d *dir) Tries() bool { return true }

// Stat implements vfs.Node.
func (d *dir) Stat(ctx context.Context) (info vfs.Info, err error) {
	err = d.read(ctx, func(here *inode) error {
		info = here.info()
		return nil
	})
	return info, err
}

func (d *dir) read(ctx context.Context, fn func(here *inode) error) error {
	if err := d.at.store.look(ctx); err != nil {
		return err
	}
	defer d.at.store.mu.RUnlock()
	here, err := d.here()
	if err != nil {
		return err
	}
	return fn(here)
}

// Lookup implements vfs.Dir.
func (d *dir) Lookup(ctx context.Context, name string) (vfs.Node, error) {
	if err := vfs.CheckName(name); err != nil {
		return nil, err
	}
	var found vfs.Node
	err := d.read(ctx, func(here *inode) error {
		found = d.found(here, name)
		if found == nil {
			return vfs.NotFound
		}
		return nil
	})
	return found, err
}

// LookPath implements vfs.PathLooker.
func (d *dir) LookPath(ctx context.Context, names []string) (vfs.Node, error) {
	var found vfs.Node
	err := d.read(ctx, func(here *inode) error {
		at := d
		for i, name := range names {
			if vfs.CheckName(name) != nil {
				return vfs.ErrStepwise
			}
			if found = at.found(here, name); found == nil {
				return vfs.NotFound
			}
			if i == len(names)-1 {
				break
			}
			next, ok := found.(*dir)
			if !ok {
				return vfs.ErrStepwise
			}
			at, here = next, next.at.node
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return found, nil
}

// found returns the node called name in here, which is d's inode, or nil.
func (d *dir) found(here *inode, name string) vfs.Node {
	n := here.children[name]
	switch {
	case n == nil:
	case n.kind == vfs.DirKind:
		return d.directory(name, n)
	case n.kind == vfs.FileKind:
		return d.file(name)
	case n.kind == vfs.LinkKind:
		return &link{ref{in: d.at, name: name, kind: vfs.LinkKind}}
	}
	return nil
}

func (d *dir) directory(name string, n *inode) *dir {
	return &dir{at: &place{store: d.at.store, parent: d.at, name: name, node: n}}
}

func (d *dir) file(name string) *file {
	return &file{ref{in: d.at, name: name, kind: vfs.FileKind}}
}

// List implements vfs.Dir. It yields the entries at the beginning of the iteration.
func (d *dir) List(ctx context.Context) iter.Seq2[vfs.Entry, error] { return d.ListFrom(ctx, "") }

// ListFrom implements vfs.FromLister.
func (d *dir) ListFrom(ctx context.Context, from string) iter.Seq2[vfs.Entry, error] {
	return func(yield func(vfs.Entry, error) bool) {
		all, err := d.entries(ctx)
		if err != nil {
			yield(vfs.Entry{}, err)
			return
		}
		all.Ascend(from, func(name string, kind vfs.Kind) bool {
			if err := ctx.Err(); err != nil {
				yield(vfs.Entry{}, err)
				return false
			}
			return yield(vfs.Entry{Name: name, Kind: kind}, nil)
		})
	}
}

// entries returns the present entries. It holds the store's lock for a time that does
// not depend on their number.
func (d *dir) entries(ctx context.Context) (*kinds, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	s := d.at.store
	if !vfs.IsTrying(ctx) {
		s.mu.Lock()
	} else if !s.mu.TryLock() {
		return nil, vfs.ErrWouldBlock
	}
	defer s.mu.Unlock()
	here, err := d.here()
	if err != nil {
		return nil, err
	}
	return here.entries(), nil
}

// Create implements vfs.Dir.
func (d *dir) Create(ctx context.Context, name string) (vfs.File, error) {
	if err := d.add(ctx, name, newInode(vfs.FileKind)); err != nil {
		return nil, err
	}
	return d.file(name), nil
}

// Mkdir implements vfs.Dir.
func (d *dir) Mkdir(ctx context.Context, name string) (vfs.Dir, error) {
	n := newInode(vfs.DirKind)
	if err := d.add(ctx, name, n); err != nil {
		return nil, err
	}
	return d.directory(name, n), nil
}

// Symlink implements vfs.Symlinker.
func (d *dir) Symlink(ctx context.Context, name, target string) error {
	if err := vfs.CheckTarget(target); err != nil {
		return err
	}
	return d.link(ctx, name, target)
}

// link is Symlink with any target.
func (d *dir) link(ctx context.Context, name, target string) error {
	n := newInode(vfs.LinkKind)
	n.target = target
	return d.add(ctx, name, n)
}

// add makes the new node n d's entry called name.
func (d *dir) add(ctx context.Context, name string, n *inode) error {
	if err := vfs.CheckNewName(name); err != nil {
		return err
	}
	return d.at.store.change(ctx, func(int) (step, error) {
		here, err := d.here()
		if err != nil {
			return step{}, err
		}
		if here.children[name] != nil {
			return step{}, vfs.Exists
		}
		return step{grows: vfs.Effect{Nodes: 1}, apply: func() { here.put(name, n) }}, nil
	})
}

// Remove implements vfs.Dir.
func (d *dir) Remove(ctx context.Context, name string, c vfs.If) error {
	if err := vfs.CheckName(name); err != nil {
		return err
	}
	s := d.at.store
	return s.change(ctx, func(tries int) (step, error) {
		here, err := d.here()
		if err != nil {
			return step{}, err
		}
		n := here.children[name]
		if err := conditional(c, n, tries); err != nil {
			return step{}, err
		}
		switch {
		case n == nil:
			return step{}, vfs.NotFound
		case len(n.children) > 0:
			return step{}, vfs.NotEmpty
		}
		return step{grows: n.removal(), was: n.info(), apply: func() {
			here.take(name)
			if n.kind == vfs.FileKind {
				s.detach(n.data)
			}
		}}, nil
	})
}

// conditional checks a condition on a node to be removed or moved. Only a file may have
// one. Needs store.mu.
func conditional(c vfs.If, n *inode, tries int) error {
	if n == nil || n.kind == vfs.FileKind {
		return meets(c, n, tries)
	}
	if !c.IsZero() {
		return vfs.ErrNoVersion
	}
	return nil
}

// removal returns by how much the tree grows when n is removed, which is below zero.
func (n *inode) removal() vfs.Effect {
	if n.kind == vfs.FileKind {
		return vfs.Effect{Bytes: -n.data.size, Nodes: -1}
	}
	return vfs.Effect{Nodes: -1}
}

// Watch implements [vfs.Watcher]. Only who has a Dir changes the tree.
func (d *dir) Watch(ctx context.Context, _ vfs.Watch) (vfs.Watching, error) {
	return vfs.Unwatched{}, ctx.Err()
}
