package git

import (
	"context"
	"iter"
	"sync/atomic"

	"github.com/go-git/go-git/v5/plumbing/filemode"

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

// here returns the directory at d's place. Needs Store.mu for reading.
func (d *dir) here() (*directory, error) {
	if d.closed.Load() {
		return nil, vfs.Stale
	}
	return d.at.directory()
}

// read runs fn on the directory at d's place. fn must not change it.
func (d *dir) read(ctx context.Context, fn func(*directory) error) error {
	s := d.at.store
	if err := s.look(ctx); err != nil {
		return err
	}
	defer s.mu.RUnlock()
	here, err := d.here()
	if err != nil {
		return err
	}
	return fn(here)
}

// Close implements vfs.Node.
func (d *dir) Close() error {
	d.closed.Store(true)
	return nil
}

// Immutable implements vfs.Immutable.
func (d *dir) Immutable() bool { return !d.at.store.writable }

// Stat implements vfs.Node.
func (d *dir) Stat(ctx context.Context) (info vfs.Info, err error) {
	err = d.read(ctx, func(here *directory) error {
		info = vfs.Info{Kind: vfs.DirKind, ModifiedMs: d.at.store.base.ms}
		if here.ms != 0 {
			info.ModifiedMs = here.ms
		}
		return nil
	})
	return info, err
}

// Lookup implements vfs.Dir.
func (d *dir) Lookup(ctx context.Context, name string) (vfs.Node, error) {
	if err := vfs.CheckName(name); err != nil {
		return nil, err
	}
	var it *item
	err := d.read(ctx, func(here *directory) error {
		it = here.find(name)
		return nil
	})
	switch {
	case err != nil:
		return nil, err
	case it == nil:
		return nil, vfs.NotFound
	case it.kind() == vfs.DirKind:
		return d.directory(it), nil
	case it.kind() == vfs.LinkKind:
		return &link{ref{in: d.at, name: it.name, kind: vfs.LinkKind}}, nil
	}
	return d.file(it.name), nil
}

func (d *dir) directory(it *item) *dir {
	return &dir{at: &place{store: d.at.store, parent: d.at, name: it.name, self: it.self}}
}

func (d *dir) file(name string) *file {
	return &file{ref{in: d.at, name: name, kind: vfs.FileKind}}
}

// List implements vfs.Dir. It yields the entries at the beginning of the iteration.
func (d *dir) List(ctx context.Context) iter.Seq2[vfs.Entry, error] {
	return func(yield func(vfs.Entry, error) bool) {
		var all iter.Seq[vfs.Entry]
		err := d.read(ctx, func(here *directory) error {
			all = here.entries()
			return nil
		})
		if err != nil {
			yield(vfs.Entry{}, err)
			return
		}
		for e := range all {
			if err := ctx.Err(); err != nil {
				yield(vfs.Entry{}, err)
				return
			}
			if !yield(e, nil) {
				return
			}
		}
	}
}

// entries returns d's present entries. The result needs no lock.
func (d *directory) entries() iter.Seq[vfs.Entry] {
	if d.over != nil {
		all := make([]vfs.Entry, 0, d.count)
		for it := range d.all() {
			all = append(all, vfs.Entry{Name: it.name, Kind: it.kind()})
		}
		return func(yield func(vfs.Entry) bool) {
			for _, e := range all {
				if !yield(e) {
					return
				}
			}
		}
	}
	return func(yield func(vfs.Entry) bool) {
		for _, off := range d.tree.at { // never changes
			e := d.tree.entry(off)
			if !yield(vfs.Entry{Name: e.name, Kind: kindOf(e.mode)}) {
				return
			}
		}
	}
}

// Create implements vfs.Dir.
func (d *dir) Create(ctx context.Context, name string) (vfs.File, error) {
	fresh := newContent(d.at.store.spool)
	it := &item{entry: entry{name: name, mode: filemode.Regular}, data: fresh}
	if err := d.add(ctx, it); err != nil {
		return nil, err
	}
	return d.file(it.name), nil
}

// maxTreeDepth is how deep directories may be made and trees committed. Git's own
// lowest bound is 2048.
const maxTreeDepth = 1024

// Mkdir implements vfs.Dir. No commit contains the directory until it holds a file.
func (d *dir) Mkdir(ctx context.Context, name string) (vfs.Dir, error) {
	depth := 1
	for p := d.at; p.parent != nil; p = p.parent {
		depth++
	}
	if !d.Immutable() && depth > maxTreeDepth {
		return nil, errDeep
	}
	it := &item{entry: entry{name: name, mode: filemode.Dir}, dir: &directory{tree: noTree, over: map[string]*item{}}}
	if err := d.add(ctx, it); err != nil {
		return nil, err
	}
	return d.directory(it), nil
}

var errDeep = vfs.Errorf(vfs.Limit, "directories here may be at most %d deep", maxTreeDepth)

// Symlink implements vfs.Symlinker.
func (d *dir) Symlink(ctx context.Context, name, target string) error {
	if d.Immutable() {
		return vfs.ReadOnly
	}
	if err := vfs.CheckTarget(target); err != nil {
		return err
	}
	return d.add(ctx, &item{entry: entry{name: name, mode: filemode.Symlink}, target: target})
}

// add puts a new node into d. It sets its time and, for a directory, its identity.
func (d *dir) add(ctx context.Context, it *item) error {
	s := d.at.store
	if d.Immutable() {
		return vfs.ReadOnly
	}
	if err := checkNew(it.name, it.kind()); err != nil {
		return err
	}
	return s.change(ctx, func(int) (step, error) {
		here, err := d.here()
		switch {
		case err != nil:
			return step{}, err
		case here.submodule:
			return step{}, errSubmodule
		case here.find(it.name) != nil:
			return step{}, vfs.Exists
		}
		return step{grows: vfs.Effect{Nodes: 1}, apply: func() error {
			here, err := d.at.changeable()
			if err != nil {
				return err
			}
			it.ms = nowMs()
			if it.dir != nil {
				s.made++
				it.self, it.dir.ms = identity{made: s.made}, it.ms
			}
			here.put(it.name, it, it.ms)
			return nil
		}}, nil
	})
}

// Remove implements vfs.Dir.
func (d *dir) Remove(ctx context.Context, name string, c vfs.If) error {
	if d.Immutable() {
		return vfs.ReadOnly
	}
	if err := vfs.CheckName(name); err != nil {
		return err
	}
	s := d.at.store
	return s.change(ctx, func(tries int) (step, error) {
		here, err := d.here()
		if err != nil {
			return step{}, err
		}
		it := here.find(name)
		if err := s.conditional(c, it, tries); err != nil {
			return step{}, err
		}
		if it == nil {
			return step{}, vfs.NotFound
		}
		if err := s.removable(it); err != nil {
			return step{}, err
		}
		grows, err := s.removal(it)
		return step{grows: grows, apply: func() error {
			here, err := d.at.changeable()
			if err != nil {
				return err
			}
			here.put(name, nil, nowMs())
			s.epoch++
			return nil
		}}, err
	})
}

// removable answers notEmpty for a directory that holds anything, hidden names
// included, and readOnly for a submodule. Needs s.mu for reading.
func (s *Store) removable(it *item) error {
	if it.kind() != vfs.DirKind {
		return nil
	}
	if it.isSubmodule() {
		return errSubmodule
	}
	d, err := s.directory(it)
	if err == nil && d.count+len(d.tree.long) > 0 {
		err = vfs.NotEmpty
	}
	return err
}
