// Package virtualfs composes one tree of many stores for a host. It mounts stores by
// URL, each with its own attenuation. It also does what only a host may do with them:
// show the changes in a copy-on-write layer or a git revision, apply, revert or commit
// them, take snapshots, and materialize a part in a private directory.
//
// It opens no store itself: [Options] has an opener for each scheme of URLs. So it
// depends on no backend, and a host can add its own.
package virtualfs

import (
	"cmp"
	"context"
	"errors"
	"log"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"capd/meter"
	"capd/operator"
	"capd/vfs"
	"capd/vfs/batch"
	"capd/vfs/deny"
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
	// Logf logs for the host. Nil means the log package.
	Logf func(format string, args ...any)
}

// FS is a namespace of mounted stores. Safe for concurrent use.
type FS struct {
	o     Options
	names *namespace.Namespace
	top   vfs.Dir // the host's own view, behind the mounts' guards only

	mu      sync.Mutex // not held while a store is opened or used
	mounts  map[string]*mount
	opening map[string]bool
	closed  bool
}

var _ operator.VirtualFs = (*FS)(nil)

// New returns an empty namespace.
func New(o Options) *FS {
	if o.Logf == nil {
		o.Logf = log.Printf
	}
	fs := &FS{o: o, names: namespace.New(), mounts: map[string]*mount{}, opening: map[string]bool{}}
	fs.top = membrane.Guarded(fs.names.Root(), nil)
	return fs
}

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
	err := fs.names.Mount(m.Path, tree, namespace.Options{
		ReadOnly: a.ReadOnly, NoLinks: a.NoLinks, Guards: guards, OnClose: func() {
			if err := m.store.close(); err != nil {
				fs.o.Logf("capd: %s: closing its store: %v", operator.Place(m.Path), err)
			}
		},
	})
	if err == nil {
		fs.mounts[m.Path] = m
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

// open opens the store of u, and returns the tree to mount.
func (fs *FS) open(ctx context.Context, u *URL, a operator.Attenuation) (*mount, vfs.Dir, error) {
	below := u
	if u.Below != nil {
		below = u.Below
	}
	opener := fs.o.Open[below.Scheme]
	if opener == nil && u.Below != nil {
		return nil, nil, vfs.Errorf(vfs.Invalid, "%q is neither an option of an overlay, as in overlay:keep:URL and overlay:max=64MiB:URL, nor a kind of store; there are: %s",
			below.Scheme, strings.Join(fs.schemes(), ", "))
	}
	if opener == nil {
		return nil, nil, vfs.Errorf(vfs.Invalid, "there is no kind of store called %q; there are: %s", below.Scheme, strings.Join(fs.schemes(), ", "))
	}
	if u.Below != nil && fs.o.Upper == nil {
		return nil, nil, vfs.Errorf(vfs.Unsupported, "this host has no overlays; mount %s: itself", below.Scheme)
	}
	m := &mount{Mount: operator.Mount{URL: u.String(), Kind: u.Scheme}, url: u}
	if u.Below == nil {
		if err := m.open(ctx, opener, u, a); err != nil {
			return nil, nil, err
		}
		return m, m.store.Root(), nil
	}
	var err error
	if m.upper, err = fs.o.Upper(ctx, u); err != nil {
		return nil, nil, err
	}
	below.Place, below.Base = u.Place, m.upper.Base
	if err := m.open(ctx, opener, below, a); err != nil {
		return nil, nil, errors.Join(err, m.upper.Tree.Close(), m.upper.End(false))
	}
	if err := m.lay(ctx); err != nil {
		m.store.close()
		return nil, nil, err
	}
	return m, m.overlay.Root(), nil
}

// open opens m's store, and makes the guards that a asks for.
func (m *mount) open(ctx context.Context, opener Opener, u *URL, a operator.Attenuation) (err error) {
	if m.store, err = opener(ctx, u); err != nil {
		return err
	}
	if m.guards, err = guards(u.Place, m.store, a); err != nil {
		m.store.close()
	}
	return err
}

func (fs *FS) schemes() []string {
	all := append(slices.Collect(maps.Keys(fs.o.Open)), overlayScheme)
	slices.Sort(all)
	return all
}

// guards returns the guards for what the mount withholds, for what may be read but not
// changed, and its own.
func guards(place string, s *Store, a operator.Attenuation) ([]membrane.Guard, error) {
	withhold, ask := s.Deny, s.Ask
	if a.Deny != nil {
		withhold = a.Deny
	}
	if a.Ask != nil {
		ask = a.Ask
	}
	var all []membrane.Guard
	if len(withhold) > 0 {
		l, err := deny.Compile(withhold...)
		if err != nil {
			return nil, err
		}
		all = append(all, l.Guard())
	}
	if len(ask) > 0 {
		l, err := deny.Compile(ask...)
		if err != nil {
			return nil, err
		}
		all = append(all, l.Ask(cmp.Or(place, "the tree")))
	}
	return append(all, a.Guards...), nil
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
