package git

import (
	"context"
	"sync/atomic"

	"github.com/go-git/go-git/v5/plumbing"

	"capd/vfs"
)

// ref is a reference to a node in a directory: files and links are known by their
// place alone, so that whatever is put there is what they read.
type ref struct {
	in     *place
	name   string
	kind   vfs.Kind
	closed atomic.Bool
}

// item returns what is at the place now: stale when the place moved or holds another
// kind of node, notFound when it is empty. Store.mu is held, for reading at least.
func (r *ref) item() (*item, error) {
	if r.closed.Load() {
		return nil, vfs.Stale
	}
	in, err := r.in.directory()
	if err != nil {
		return nil, err
	}
	it := in.find(r.name)
	switch {
	case it == nil:
		return nil, vfs.NotFound
	case it.kind() != r.kind:
		return nil, vfs.Stale
	}
	return it, nil
}

// Immutable implements vfs.Immutable.
func (r *ref) Immutable() bool { return !r.in.store.writable }

// Close implements vfs.Node.
func (r *ref) Close() error {
	r.closed.Store(true)
	return nil
}

// Stat implements vfs.Node.
func (r *ref) Stat(ctx context.Context) (vfs.Info, error) {
	s := r.in.store
	if err := s.look(ctx); err != nil {
		return vfs.Info{}, err
	}
	defer s.mu.RUnlock()
	it, err := r.item()
	if err != nil {
		return vfs.Info{}, err
	}
	info := vfs.Info{Kind: r.kind, ModifiedMs: s.base.ms, Exec: isExec(it.mode)}
	if it.ms != 0 {
		info.ModifiedMs = it.ms
	}
	if r.kind == vfs.FileKind {
		info.Size, err = s.size(it)
	}
	return info, err
}

// readable is what a file or link holds: held in place of the tree, or in the repository.
type readable struct {
	data *content // nil: id
	id   plumbing.Hash
	link string // of a link that was made
}

// take returns what r holds. A written content is frozen, and the caller releases it.
func (r *ref) take(ctx context.Context) (readable, error) {
	s := r.in.store
	if err := s.look(ctx); err != nil {
		return readable{}, err
	}
	defer s.mu.RUnlock()
	it, err := r.item()
	if err != nil {
		return readable{}, err
	}
	if it.data != nil {
		it.data.frozen.Store(true)
		it.data.hold()
	}
	return readable{it.data, it.id, it.target}, nil
}
