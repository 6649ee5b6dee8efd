package git

import (
	"context"
	"iter"
	"sync/atomic"

	"capd/vfs"
)

type dir struct {
	vfs.ImmutableDir
	at     *place
	closed atomic.Bool
}

var _ vfs.Dir = (*dir)(nil)

// read returns the directory at d's place, and the time of the commit that it is in.
func (d *dir) read(ctx context.Context) (here directory, ms int64, err error) {
	s := d.at.store
	if err := s.look(ctx); err != nil {
		return directory{}, 0, err
	}
	defer s.mu.RUnlock()
	if d.closed.Load() {
		return directory{}, 0, vfs.Stale
	}
	here, err = d.at.directory()
	return here, s.base.ms, err
}

// Close implements vfs.Node.
func (d *dir) Close() error {
	d.closed.Store(true)
	return nil
}

// Stat implements vfs.Node.
func (d *dir) Stat(ctx context.Context) (vfs.Info, error) {
	_, ms, err := d.read(ctx)
	if err != nil {
		return vfs.Info{}, err
	}
	return vfs.Info{Kind: vfs.DirKind, ModifiedMs: ms}, nil
}

// Lookup implements vfs.Dir.
func (d *dir) Lookup(ctx context.Context, name string) (vfs.Node, error) {
	if err := vfs.CheckName(name); err != nil {
		return nil, err
	}
	here, _, err := d.read(ctx)
	if err != nil {
		return nil, err
	}
	e, ok := here.find(name)
	switch kind := kindOf(e.mode); {
	case !ok:
		return nil, vfs.NotFound
	case kind == vfs.DirKind:
		return &dir{at: &place{store: d.at.store, parent: d.at, name: e.name}}, nil
	case kind == vfs.LinkKind:
		return &link{ref: ref{in: d.at, name: e.name, kind: kind}}, nil
	}
	return &file{ref: ref{in: d.at, name: e.name, kind: vfs.FileKind}}, nil
}

// List implements vfs.Dir. It yields the entries at the beginning of the iteration.
func (d *dir) List(ctx context.Context) iter.Seq2[vfs.Entry, error] {
	return func(yield func(vfs.Entry, error) bool) {
		here, _, err := d.read(ctx)
		if err != nil {
			yield(vfs.Entry{}, err)
			return
		}
		for _, off := range here.at { // never changes
			if err := ctx.Err(); err != nil {
				yield(vfs.Entry{}, err)
				return
			}
			e := here.entry(off)
			if !yield(vfs.Entry{Name: e.name, Kind: kindOf(e.mode)}, nil) {
				return
			}
		}
	}
}
