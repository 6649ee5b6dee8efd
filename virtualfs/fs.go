// Package virtualfs composes one tree of many stores for a host. It mounts stores by
// URL, each with its own attenuation. It also does what only a host may do with them:
// show the changes in a copy-on-write layer or a git revision, apply, revert or commit
// them, take snapshots, and materialize a part in a private directory.
//
// It opens no store itself: [Options] has an opener for each scheme of URLs. So it
// depends on no backend, and a host can add its own.
package virtualfs

import (
	"context"
	"errors"
	"log"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"capd/meter"
	"capd/operator"
	"capd/vfs"
	"capd/vfs/batch"
	"capd/vfs/membrane"
	"capd/vfs/namespace"
	"capd/vfs/overlay"
)

// Options say how stores are opened and where work is kept. What needs a nil field is
// unsupported.
type Options struct {
	// Open has the opener of each scheme. overlay needs none.
	Open map[string]Opener
	// Upper opens what the overlay u writes to.
	Upper func(ctx context.Context, u *URL) (*Upper, error)
	// Journal is where intents and backups are written: a directory that nobody else
	// uses and that survives a crash. The caller keeps it. Apply and Undo need it.
	Journal vfs.Dir
	// Snapshot puts d, the tree at path, into a content-addressed store.
	Snapshot func(ctx context.Context, d vfs.Dir, path, store, pin string, progress operator.Progress) (operator.Snapshot, error)
	// Materialize copies a tree into a private directory of the host. name is for
	// [Recover], in case the process dies during a Sync.
	Materialize func(ctx context.Context, d vfs.Dir, name string, b operator.Bounds, progress operator.Progress) (operator.Tree, error)
	// Record writes what an operator is about to do, and returns when that is on disk. After an error nothing is done.
	// Otherwise end is called once, with how it ended. id is that of the change in the record. Nil records nothing.
	Record func(operator.Act) (id string, end func(error), err error)
	// Recovered is what became of the batches of an earlier process, for Settled.
	Recovered []batch.Recovered
	// Logf logs for the host. Nil means the log package.
	Logf func(format string, args ...any)
}

// FS is a namespace of mounted stores. Safe for concurrent use.
type FS struct {
	o     Options
	names *namespace.Namespace
	top   vfs.Dir // the host's own view, behind the mounts' guards only

	changed func(path string) // see OnChange; may be nil

	mu      sync.Mutex // not held while a store is opened or used
	mounts  map[string]*mount
	opening map[string]bool
	closed  bool

	lasting atomic.Pointer[map[string]bool] // whether the store of each mount outlives the process; see Lasting
}

var _ operator.VirtualFs = (*FS)(nil)

// New returns an empty namespace.
func New(o Options) *FS {
	if o.Logf == nil {
		o.Logf = log.Printf
	}
	fs := &FS{o: o, names: namespace.New(), mounts: map[string]*mount{}, opening: map[string]bool{}}
	if o.Journal != nil {
		fs.names.SetJournal(o.Journal, fs.Target)
	}
	fs.top = membrane.Guarded(fs.names.Root(), nil)
	return fs
}

// Guard puts guards around the tree as the host itself has it. It is called before anything else is done with fs.
func (fs *FS) Guard(guards ...membrane.Guard) {
	fs.top = membrane.Guarded(fs.names.Root(), nil, guards...)
}

// OnChange has f called after an operator has changed something at path or below: applied, dropped or committed changes, for example. It is called before
// anything else is done with fs.
func (fs *FS) OnChange(f func(path string)) { fs.changed = f }

// Tree returns the whole tree, so that an authority can grant parts of it.
func (fs *FS) Tree() vfs.Dir { return fs.names.Root() }

// mount is one mounted store.
type mount struct {
	operator.Mount
	url      *URL
	identity string // tells it from other stores; see identify
	store    *Store
	guards   []membrane.Guard // deny, ask and its own
	meter    *meter.Meter     // nil if the mount has no quota
	overlay  *overlay.Overlay
	upper    *Upper   // of the overlay
	applied  []string // ids of applies in the journal, oldest first

	work sync.Mutex // one apply, undo, revert or commit at a time
}

// Mount implements [operator.VirtualFs].
func (fs *FS) Mount(ctx context.Context, path, url string, a operator.Attenuation) error {
	u, err := ParseURL(url)
	if err != nil {
		return err
	}
	if path != "" {
		if _, err := vfs.SplitPath(path); err != nil {
			return vfs.At(path, err)
		}
	}
	if err := fs.reserve(path); err != nil {
		return vfs.At(path, err)
	}
	defer fs.free(path)
	u.Place = path
	m, tree, err := fs.open(ctx, u, a)
	if err != nil {
		return err
	}
	m.Path, m.Attenuation, m.Kept = path, a, m.store.Kept
	m.identity, err = identify(ctx, u, tree)
	if m.overlay != nil && m.orphaned() {
		fs.o.Logf("capd: %s: changes wait that were made over %s, which ended with an earlier host; those that need what it held are in conflict", vfs.Printable(path), m.url.Below)
	}
	if err == nil {
		err = fs.enter(m, tree)
	}
	if err != nil {
		tree.Close()
		m.store.close()
		return vfs.At(path, err)
	}
	return nil
}

func (fs *FS) enter(m *mount, tree vfs.Dir) error {
	fs.mu.Lock()
	defer fs.mu.Unlock()
	if fs.closed {
		return vfs.Stale
	}
	guards := m.guards
	if m.overlay != nil {
		guards = unasked(guards)
	}
	a := m.Attenuation
	if a.Bytes > 0 || a.Nodes > 0 {
		m.meter = meter.New(m.Path, "what is mounted here", meter.Limits{meter.StoredBytes: a.Bytes, meter.StoredNodes: a.Nodes})
		m.meter.Settle(meter.Effect{}, meter.Effect(m.store.Grown))
		guards = append(slices.Clip(guards), membrane.Guard{Meter: m.meter})
	}
	fs.mounts[m.Path] = m
	fs.noteLasting() // before anybody changes something there
	err := fs.names.Mount(m.Path, tree, namespace.Options{
		ReadOnly: a.ReadOnly, NoLinks: a.NoLinks, Guards: guards, OnClose: func() {
			if err := m.store.close(); err != nil {
				fs.o.Logf("capd: %s: closing its store: %v", operator.Place(m.Path), err)
			}
		},
	})
	if err != nil {
		delete(fs.mounts, m.Path)
		fs.noteLasting()
	}
	return err
}

// close closes s. It answers busy for a store that takes longer than [membrane.Grace], which is left behind.
func (s *Store) close() error {
	if s.Close == nil {
		return nil
	}
	done := make(chan error, 1)
	go func() { done <- s.Close() }()
	select {
	case err := <-done:
		return err
	case <-time.After(membrane.Grace):
		return vfs.Errorf(vfs.Busy, "it has not ended after %v; going on without it", membrane.Grace)
	}
}

// reserve keeps others from mounting at path while its store is being opened.
func (fs *FS) reserve(path string) error {
	fs.mu.Lock()
	defer fs.mu.Unlock()
	switch {
	case fs.closed:
		return vfs.Stale
	case fs.mounts[path] != nil:
		return vfs.Errorf(vfs.Exists, "something is mounted here already; unmount it first")
	case fs.opening[path]:
		return vfs.Errorf(vfs.Busy, "something is being mounted here just now")
	}
	fs.opening[path] = true
	return nil
}

func (fs *FS) free(path string) {
	fs.mu.Lock()
	defer fs.mu.Unlock()
	delete(fs.opening, path)
}

// Unmount implements [operator.VirtualFs].
func (fs *FS) Unmount(ctx context.Context, path string) error {
	m, err := fs.at(path)
	if err != nil {
		return err
	}
	if !m.work.TryLock() {
		return vfs.At(path, vfs.Errorf(vfs.Busy, "its changes are being applied or dropped now; try again"))
	}
	defer m.work.Unlock()
	fs.mu.Lock()
	defer fs.mu.Unlock()
	if fs.mounts[path] != m {
		return vfs.At(path, errNoMount)
	}
	if err := fs.names.Unmount(ctx, path); err != nil {
		return vfs.At(path, err)
	}
	delete(fs.mounts, path)
	fs.noteLasting()
	fs.forget(ctx, m.applied)
	return nil
}

// forget forgets applies, which can be undone no more.
func (fs *FS) forget(ctx context.Context, applied []string) {
	for _, id := range applied {
		if err := batch.Forget(ctx, fs.o.Journal, id); err != nil {
			fs.o.Logf("capd: forgetting an apply: %v", err)
		}
	}
}

var errNoMount = vfs.Errorf(vfs.NotFound, "nothing is mounted exactly here; mounts() lists what is")

// at returns the mount exactly at path.
func (fs *FS) at(path string) (*mount, error) {
	fs.mu.Lock()
	defer fs.mu.Unlock()
	m := fs.mounts[path]
	if m == nil {
		return nil, vfs.At(path, errNoMount)
	}
	return m, nil
}

// Mounts returns every mount, in byte order of paths.
func (fs *FS) Mounts() []operator.Mount {
	fs.mu.Lock()
	ms := slices.Collect(maps.Values(fs.mounts))
	fs.mu.Unlock()
	all := make([]operator.Mount, len(ms))
	for i, m := range ms {
		all[i] = m.Mount
		if m.store.Fixed && m.overlay == nil {
			all[i].Attenuation.ReadOnly = true
		}
		if m.store.Detail != nil {
			all[i].Detail = m.store.Detail()
		}
		all[i].Changes = m.changed()
	}
	slices.SortFunc(all, func(a, b operator.Mount) int { return strings.Compare(a.Path, b.Path) })
	return all
}

// changed reports whether changes wait in m.
func (m *mount) changed() bool {
	if m.store.Own != nil && m.store.Own.Changed() {
		return true
	}
	if m.overlay == nil {
		return false
	}
	changed, err := m.overlay.Changed(context.Background())
	return err == nil && changed
}

// Root returns the whole tree with the rights that the mounts allow, and a control of this Dir
// and everything derived from it.
func (fs *FS) Root(context.Context) (vfs.Dir, *membrane.Control, error) {
	return membrane.RevocableDir(fs.top)
}

// Close closes everything. Nodes open in a mount then answer stale.
func (fs *FS) Close() error {
	fs.mu.Lock()
	fs.closed = true
	clear(fs.mounts)
	fs.mu.Unlock()
	return errors.Join(fs.top.Close(), fs.names.Close())
}
