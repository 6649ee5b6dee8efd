package git

import (
	"context"
	"sync/atomic"

	"github.com/go-git/go-git/v5/plumbing"

	"capd/vfs"
)

// ref is a reference to a node in a directory. A file or a link is identified by its
// place alone: the reference reads whatever is there.
type ref struct {
	in     *place
	name   string
	kind   vfs.Kind
	closed atomic.Bool
}

// item returns what is at the place now. It answers stale when the place moved or holds
// another kind of node, and notFound when it is empty. Needs Store.mu for reading.
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

// readable is the content of a file or link, written or in the repository.
type readable struct {
	data *content // if nil, id has it
	id   plumbing.Hash
	link string // of a link that was made
}

// take returns r's content. It freezes a written content, which the caller releases.
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
