package vfs

import (
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// Namespace is one tree composed of others, each mounted at a path. A mount hides
// what lies beneath it in another; the directories that lead to one exist by
// themselves and cannot be changed. A place where something is mounted, or that
// leads to one, can be neither removed nor renamed nor overwritten (busy).
//
// What is mounted shows at once in every directory that is open. A node is of the
// tree it was opened in: while another mount lies over its place, and once its tree
// was unmounted, it is stale. A namespace is the host's; what guests are given is
// below [Namespace.Root]. Safe for concurrent use.
type Namespace struct {
	mu     sync.Mutex // held to change table
	table  atomic.Pointer[mountTable]
	closed bool
	born   int64
}

// NewNamespace returns a namespace in which nothing is mounted.
func NewNamespace() *Namespace {
	n := &Namespace{born: time.Now().UnixMilli()}
	n.table.Store(newMountTable(nil))
	return n
}

// Mount describes what is mounted at a path.
type Mount struct {
	Path     string // "" for the root
	ReadOnly bool
	NoLinks  bool
	Shut     bool // it is being unmounted: changes that had begun have not ended
}

// MountOptions attenuates a mount.
type MountOptions struct {
	ReadOnly bool
	NoLinks  bool    // links are listed and may be removed, and anything else about one is denied
	Guards   []Guard // of this mount alone; they see paths from its root
	OnClose  func()  // called, once, when it was unmounted and the namespace has closed the tree
}

// Mount mounts tree at path, "" for the root, which need not exist. On success it
// takes over tree. It answers exists where something is mounted, invalid or limit
// for a bad path, and stale when the namespace was closed.
func (n *Namespace) Mount(path string, tree Dir, o MountOptions) error {
	names, err := mountNames(path)
	if err != nil {
		return At(path, err)
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	t := n.table.Load()
	switch {
	case n.closed:
		return Errorf(Stale, "the namespace was closed")
	case t.at(names) != nil && t.at(names).mount != nil:
		return At(path, Errorf(Exists, "something is mounted here already; unmount it first"))
	}
	m, err := newMount(path, names, tree, o)
	if err != nil {
		return At(path, err)
	}
	around := t.around(names)
	inner := t.directlyBelow(around, names)
	for _, b := range inner {
		m.cover(b)
	}
	n.table.Store(newMountTable(append(slices.Clip(t.all), m)))
	if around != nil {
		around.cover(m)
		for _, b := range inner {
			around.uncover(b)
		}
	}
	return nil
}

// Unmount takes away what is mounted at path. It shuts the mount at once, then waits
// for the changes that had begun, as [Gate.Revoke] does: past the grace it answers
// busy, and the mount stays, shut, until it is asked again. Afterwards everything
// that was opened in the tree is stale, and what is mounted below stays. It answers
// notFound where nothing is mounted.
func (n *Namespace) Unmount(ctx context.Context, path string) error {
	names, err := mountNames(path)
	if err != nil {
		return At(path, err)
	}
	at := n.table.Load().at(names)
	if at == nil || at.mount == nil {
		return At(path, Errorf(NotFound, "nothing is mounted here"))
	}
	m := at.mount
	m.shut.Store(true)
	m.gate.set(unmounted, 0)
	switch err := m.gate.drain(ctx); err {
	case nil:
	case ctx.Err():
		return err
	default:
		return At(path, err)
	}
	if n.drop(m) {
		m.close()
	}
	return nil
}

// drop takes m out of the table, and reports whether it was there.
func (n *Namespace) drop(m *mount) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	t := n.table.Load()
	i := slices.Index(t.all, m)
	if i < 0 {
		return false
	}
	around := t.around(m.names)
	for _, b := range t.directlyBelow(m, m.names) {
		if around != nil {
			around.cover(b)
		}
		m.uncover(b)
	}
	if around != nil {
		around.uncover(m)
	}
	n.table.Store(newMountTable(slices.Delete(slices.Clone(t.all), i, i+1)))
	return true
}

// Mounts returns what is mounted, in byte order of paths.
func (n *Namespace) Mounts() []Mount {
	var all []Mount
	for _, m := range n.table.Load().all {
		all = append(all, Mount{Path: m.path, ReadOnly: m.o.ReadOnly, NoLinks: m.o.NoLinks, Shut: m.shut.Load()})
	}
	return all
}

// Root returns the whole tree; each call returns a reference of its own. Unlike any
// other directory the root is of no tree: it shows what is mounted at "" now.
func (n *Namespace) Root() Dir { return &nsDir{ns: n, root: true} }

// Close unmounts everything. It answers busy as Unmount does, and may be called
// again then. Afterwards everything that was opened in the namespace is stale.
func (n *Namespace) Close() error {
	n.mu.Lock()
	n.closed = true
	all := n.table.Load().all
	n.mu.Unlock()
	var failed error
	for _, m := range slices.Backward(all) {
		if err := n.Unmount(context.Background(), m.path); err != nil && CodeOf(err) != NotFound {
			failed = errors.Join(failed, err)
		}
	}
	if failed == nil {
		n.table.Store(closedTable)
	}
	return failed
}

// mountNames splits the path of a mount.
func mountNames(path string) ([]string, error) {
	if path == "" {
		return nil, nil
	}
	names, err := SplitPath(path)
	for _, name := range names {
		err = first(err, CheckNewName(name))
	}
	return names, err
}
