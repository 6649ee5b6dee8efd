package git

import (
	"context"
	"sync/atomic"

	"github.com/go-git/go-git/v5/plumbing"

	"capd/vfs"
)

// ref is a reference to a file or a link. It is identified by its place alone: the
// reference reads whatever is there.
type ref struct {
	in     *place
	name   string
	kind   vfs.Kind
	closed atomic.Bool
}

// entry returns what is at the place now, and the time of the commit that it is in. It
// answers stale when the place holds another kind of node, and notFound when it is
// empty.
func (r *ref) entry(ctx context.Context) (e entry, ms int64, err error) {
	s := r.in.store
	if err := s.look(ctx); err != nil {
		return e, 0, err
	}
	defer s.mu.RUnlock()
	if r.closed.Load() {
		return e, 0, vfs.Stale
	}
	in, err := r.in.directory()
	if err != nil {
		return e, 0, err
	}
	e, ok := in.find(r.name)
	switch {
	case !ok:
		return e, 0, vfs.NotFound
	case kindOf(e.mode) != r.kind:
		return e, 0, vfs.Stale
	}
	return e, s.base.ms, nil
}

// id returns the id of the blob at the place.
func (r *ref) id(ctx context.Context) (plumbing.Hash, error) {
	e, _, err := r.entry(ctx)
	return e.id, err
}

// Close implements vfs.Node.
func (r *ref) Close() error {
	r.closed.Store(true)
	return nil
}

// Stat implements vfs.Node.
func (r *ref) Stat(ctx context.Context) (vfs.Info, error) {
	e, ms, err := r.entry(ctx)
	if err != nil {
		return vfs.Info{}, err
	}
	info := vfs.Info{Kind: r.kind, ModifiedMs: ms, Exec: isExec(e.mode)}
	if r.kind == vfs.FileKind {
		info.Size, err = r.in.store.blobs.size(e.id)
	}
	return info, err
}
