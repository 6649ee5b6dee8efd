package memory

import (
	"context"
	"sync/atomic"

	"github.com/tidwall/btree"

	"capd/vfs"
)

// inode is what is stored at a place. It is guarded by Store.mu.
type inode struct {
	kind     vfs.Kind
	modified int64  // milliseconds since the Unix epoch
	parent   *inode // nil for the root, and once it has left the tree
	name     string // in parent

	exec     bool              // of a file
	data     *blob             // of a file
	target   string            // of a link
	children map[string]*inode // of a directory
	sorted   kinds             // of a directory: the result of List
	listing  *kinds            // of a directory: a copy of sorted; nil when none is taken
}

// kinds are entries in byte order of names. A copy takes constant time. Changes to the
// original do not show in the copy, nor the other way.
type kinds = btree.Map[string, vfs.Kind]

func newInode(kind vfs.Kind) *inode {
	n := &inode{kind: kind, modified: nowMs()}
	switch kind {
	case vfs.DirKind:
		n.children = map[string]*inode{}
	case vfs.FileKind:
		n.data = &blob{}
	}
	return n
}

func (n *inode) info() vfs.Info {
	info := vfs.Info{Kind: n.kind, ModifiedMs: n.modified}
	if n.kind == vfs.FileKind {
		info.Size, info.Exec = n.data.size, n.exec
	}
	return info
}

// put makes child d's entry called name. It removes an entry that is already there.
func (d *inode) put(name string, child *inode) {
	d.take(name)
	d.children[name] = child
	d.sorted.Set(name, child.kind)
	child.parent, child.name = d, name
}

// take removes the entry called name from d.
func (d *inode) take(name string) {
	if old := d.children[name]; old != nil {
		old.parent, old.name = nil, ""
		delete(d.children, name)
		d.sorted.Delete(name)
	}
	d.listing = nil
	d.modified = nowMs()
}

// entries returns d's entries, which must not be changed. Needs Store.mu for writing.
func (d *inode) entries() *kinds {
	if d.listing == nil {
		d.listing = d.sorted.Copy()
	}
	return d.listing
}

// within reports whether n is d or lies below it.
func (n *inode) within(d *inode) bool {
	for ; n != nil; n = n.parent {
		if n == d {
			return true
		}
	}
	return false
}

// place is where a directory was opened: its node, and the names by which it was
// reached. It never changes, and does not depend on a Close.
type place struct {
	store  *Store
	parent *place // nil at the root, and at a staged directory
	name   string // in parent
	node   *inode
}

// directory returns the directory at p, or stale if it is no longer there. Needs
// store.mu.
func (p *place) directory() (*inode, error) {
	q := p
	for ; q.parent != nil; q = q.parent {
		if q.node.parent != q.parent.node || q.node.name != q.name {
			return nil, vfs.Stale
		}
	}
	if q.node.parent != nil { // was staged
		return nil, vfs.Stale
	}
	return p.node, nil
}

// ref is a reference to a node in a directory. A file or a link is identified by its
// place alone: the reference reads whatever is there.
type ref struct {
	in     *place
	name   string
	kind   vfs.Kind
	closed atomic.Bool
}

// node returns what is at the place now. It answers stale when the place moved or holds
// another kind of node, and notFound when it is empty. Needs store.mu.
func (r *ref) node() (*inode, error) {
	if r.closed.Load() {
		return nil, vfs.Stale
	}
	parent, err := r.in.directory()
	if err != nil {
		return nil, err
	}
	n := parent.children[r.name]
	switch {
	case n == nil:
		return nil, vfs.NotFound
	case n.kind != r.kind:
		return nil, vfs.Stale
	}
	return n, nil
}

// read runs fn on the node at the place. fn must not change it.
func (r *ref) read(ctx context.Context, fn func(*inode)) error {
	if err := r.in.store.look(ctx); err != nil {
		return err
	}
	defer r.in.store.mu.RUnlock()
	n, err := r.node()
	if err != nil {
		return err
	}
	fn(n)
	return nil
}

// Tries implements vfs.Trier.
func (r *ref) Tries() bool { return true }

// Stat implements vfs.Node.
func (r *ref) Stat(ctx context.Context) (info vfs.Info, err error) {
	err = r.read(ctx, func(n *inode) { info = n.info() })
	return info, err
}

// Close implements vfs.Node.
func (r *ref) Close() error {
	r.closed.Store(true)
	return nil
}

type link struct{ ref }

// Target implements vfs.Link.
func (l *link) Target(ctx context.Context) (target string, err error) {
	err = l.read(ctx, func(n *inode) { target = n.target })
	return target, err
}

var _ vfs.Link = (*link)(nil)
