// Package namespace composes one tree of others, each mounted at a path behind a membrane
// of its own.
package namespace

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"capd/vfs"
	"capd/vfs/membrane"
)

// Namespace is one tree composed of others, each mounted at a path. A mount covers what
// is below its path in other trees. A directory that leads to a mount exists without
// being in any tree and cannot be changed. A mount point, and a directory that leads to
// one, answers busy when it is to be removed, renamed or overwritten.
//
// A new mount is visible at once in every open directory. A node belongs to the tree it
// was opened in. It is stale while another mount covers its place, and for good once
// its tree was unmounted. The host keeps the Namespace and gives guests what is below
// [Namespace.Root]. Safe for concurrent use.
type Namespace struct {
	mu     sync.Mutex // held to change table
	table  atomic.Pointer[mountTable]
	closed bool
	born   int64

	watched sync.Map // of *watching: who is told when something is mounted or unmounted

	journal vfs.Dir
	target  func(path string) string
}

// SetJournal says where batches of changes are written, and how the tree at a path is named there. It is called before anything is
// mounted.
func (n *Namespace) SetJournal(j vfs.Dir, target func(path string) string) {
	n.journal, n.target = j, target
}

// New returns a namespace in which nothing is mounted.
func New() *Namespace {
	n := &Namespace{born: time.Now().UnixMilli()}
	n.table.Store(newMountTable(nil))
	return n
}

// Options restricts a mount.
type Options struct {
	ReadOnly bool
	NoLinks  bool             // links are listed and may be removed; every other call on one is denied
	Guards   []membrane.Guard // of this mount alone; they see paths from its root
	OnClose  func()           // called once, when it is unmounted and the tree is closed
}

// Mount mounts tree at path, "" for the root. The path need not exist. On success the
// namespace owns tree. It answers exists where something is mounted, invalid or limit
// for a bad path, and stale when the namespace was closed.
func (n *Namespace) Mount(path string, tree vfs.Dir, o Options) error {
	names, err := mountNames(path)
	if err != nil {
		return vfs.At(path, err)
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	t := n.table.Load()
	at, _ := t.find(names)
	switch {
	case n.closed:
		return vfs.Errorf(vfs.Stale, "the namespace was closed")
	case at != nil && at.mount != nil:
		return vfs.At(path, vfs.Errorf(vfs.Exists, "something is mounted here already; unmount it first"))
	}
	m, err := newMount(path, names, tree, o)
	if err != nil {
		return vfs.At(path, err)
	}
	around := t.around(names)
	inner := t.directlyBelow(around, names)
	for _, b := range inner {
		m.cover(b)
	}
	n.exchange(newMountTable(append(slices.Clip(t.all), m)))
	if around != nil {
		around.cover(m)
		for _, b := range inner {
			around.uncover(b)
		}
	}
	return nil
}

// Unmount removes the mount at path. It shuts the mount at once and then waits for the
// changes that had begun, as [membrane.Gate.Revoke] does. After [membrane.Grace] it answers
// busy; the mount then stays, shut, until Unmount is called again. After success every node
// opened in the tree is stale. Mounts below path stay. It answers notFound where nothing is
// mounted.
func (n *Namespace) Unmount(ctx context.Context, path string) error {
	names, err := mountNames(path)
	if err != nil {
		return vfs.At(path, err)
	}
	at, _ := n.table.Load().find(names)
	if at == nil || at.mount == nil {
		return vfs.At(path, vfs.Errorf(vfs.NotFound, "nothing is mounted here"))
	}
	m := at.mount
	m.shut.Store(true)
	switch err := m.gate.Unmount(ctx); err {
	case nil:
	case ctx.Err():
		return err
	default:
		return vfs.At(path, err)
	}
	if n.drop(m) {
		m.close()
	}
	return nil
}

// drop removes m from the table, and reports whether it was there.
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
	n.exchange(newMountTable(slices.Delete(slices.Clone(t.all), i, i+1)))
	return true
}

// Root returns the whole tree. Each call returns a new reference. The root directory
// itself belongs to no tree: it always shows what is mounted at "" at that time.
func (n *Namespace) Root() vfs.Dir { return &nsDir{ns: n, root: true} }

// Close unmounts everything. It answers busy as Unmount does, and may then be called
// again. Afterwards every node opened in the namespace is stale.
func (n *Namespace) Close() error {
	n.mu.Lock()
	n.closed = true
	all := n.table.Load().all
	n.mu.Unlock()
	var failed error
	for _, m := range slices.Backward(all) {
		if err := n.Unmount(context.Background(), m.path); err != nil && vfs.CodeOf(err) != vfs.NotFound {
			failed = errors.Join(failed, err)
		}
	}
	if failed == nil {
		n.exchange(closedTable)
	}
	return failed
}

// mountNames splits the path of a mount.
func mountNames(path string) ([]string, error) {
	if path == "" {
		return nil, nil
	}
	names, err := vfs.SplitPath(path)
	for _, name := range names {
		err = cmp.Or(err, vfs.CheckNewName(name))
	}
	return names, err
}
