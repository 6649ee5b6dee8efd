package namespace

import (
	"cmp"
	"context"
	"iter"
	"slices"
	"strings"
	"sync/atomic"

	"capd/vfs"
	"capd/vfs/membrane"
)

// nsDir is a directory of a namespace: mounts below it, and a directory of the tree
// that contains it.
type nsDir struct {
	ns     *Namespace
	root   bool    // of the namespace; then the next three come from the table
	in     *mount  // the mount whose tree contains it, if any
	dir    vfs.Dir // behind the tree's membrane; nil where there are only mounts
	path   string  // used where dir is nil
	seen   atomic.Pointer[seen]
	closed atomic.Bool
}

// seen is what a directory found in the table it looked at last.
type seen struct {
	table *mountTable
	at    *mountPoint // nil where no mount is below
	err   error
}

// nsPlace is a directory as it is at one time.
type nsPlace struct {
	table *mountTable
	at    *mountPoint
	in    *mount
	dir   vfs.Dir
}

var errLed = vfs.Errorf(vfs.Stale, "nothing is mounted below this directory any more; look it up again")

// now answers stale for a directory that is closed or covered, or whose tree was
// unmounted.
func (d *nsDir) now() (nsPlace, error) {
	t := d.ns.table.Load()
	switch {
	case d.closed.Load():
		return nsPlace{}, vfs.ErrClosed
	case t.closed:
		return nsPlace{}, membrane.ErrUnmounted
	}
	if d.root {
		p := nsPlace{t, t.root, t.root.mount, nil}
		if p.in != nil {
			p.dir = p.in.root
		}
		return p, nil
	}
	s := d.seen.Load()
	if s == nil || s.table != t {
		s = d.look(t)
		d.seen.Store(s)
	}
	return nsPlace{t, s.at, d.in, d.dir}, s.err
}

// look finds d in t.
func (d *nsDir) look(t *mountTable) *seen {
	at, in := t.find(d.names())
	switch {
	case in != d.in && d.in != nil && d.in.shut.Load():
		return &seen{t, nil, membrane.ErrUnmounted}
	case in != d.in:
		return &seen{t, nil, membrane.ErrCovered}
	case d.dir == nil && at == nil:
		return &seen{t, nil, errLed}
	case at == nil:
		return t.plain
	}
	return at.seen
}

// names returns the names from the namespace's root to d.
func (d *nsDir) names() []string {
	path := d.path
	if d.dir != nil {
		place, _ := membrane.PlaceOf(d.dir)
		path = strings.TrimPrefix(strings.TrimPrefix(place.Path, d.in.base), "/")
		switch {
		case path == "":
			path = d.in.path
		case d.in.path != "":
			path = d.in.path + "/" + path
		}
	}
	if path == "" {
		return nil
	}
	return strings.Split(path, "/")
}

// mounted returns the mount point called name, or the directory that leads to one, or
// nil.
func (p nsPlace) mounted(name string) *mountPoint {
	if p.at == nil {
		return nil
	}
	return p.at.below[name]
}

// Tries implements [vfs.Trier].
func (d *nsDir) Tries() bool {
	p, err := d.now()
	return err != nil || p.dir == nil || vfs.CanTry(p.dir)
}

// Immutable implements [vfs.Immutable].
func (d *nsDir) Immutable() bool {
	p, err := d.now()
	return err == nil && p.dir != nil && vfs.IsImmutable(p.dir)
}

// Withholds implements [membrane.Composed].
func (d *nsDir) Withholds(name string) bool {
	p, err := d.now()
	return err == nil && p.dir != nil && p.mounted(name) == nil && membrane.Withholds(p.dir, name)
}

// Conceals implements [membrane.Composed].
func (d *nsDir) Conceals(ctx context.Context) (bool, error) {
	p, err := d.now()
	if err != nil || p.dir == nil {
		return false, err
	}
	return membrane.Conceals(ctx, p.dir)
}

func (d *nsDir) Stat(ctx context.Context) (vfs.Info, error) {
	p, err := d.now()
	if err != nil {
		return vfs.Info{}, err
	}
	if p.dir == nil {
		return vfs.Info{Kind: vfs.DirKind, ModifiedMs: d.ns.born}, nil
	}
	return p.dir.Stat(ctx)
}

// Identity implements [vfs.Identifier]. A directory that only leads to mounts has none.
func (d *nsDir) Identity(ctx context.Context) (string, error) {
	p, err := d.now()
	if err != nil {
		return "", err
	}
	if p.dir == nil {
		return "", vfs.Errorf(vfs.Unsupported, "this directory is in no store")
	}
	return vfs.Identity(ctx, p.dir)
}

func (d *nsDir) Close() error {
	if !d.closed.Swap(true) && d.dir != nil && d.dir != d.in.root {
		d.dir.Close()
	}
	return nil
}

// OnRevoke implements [membrane.Composed]. It watches d's tree; the root has none.
func (d *nsDir) OnRevoke(f func(error)) (stop func()) {
	if d.dir == nil {
		return func() {}
	}
	return membrane.OnRevoke(d.dir, f)
}

func (d *nsDir) Lookup(ctx context.Context, name string) (vfs.Node, error) {
	p, err := d.now()
	if err != nil {
		return nil, err
	}
	m := p.mounted(name)
	if m != nil && m.mount != nil {
		return d.ns.rootOf(m), nil
	}
	var n vfs.Node
	if p.dir != nil {
		found, err := p.dir.Lookup(ctx, name)
		if err != nil && (m == nil || !covered(err)) {
			return nil, err
		}
		n = found
	}
	switch under := n.(type) {
	case vfs.Dir:
		return d.below(p, under, m), nil
	case nil:
		if m == nil {
			return nil, cmp.Or(vfs.CheckName(name), error(vfs.ErrNoTree))
		}
	default:
		if m == nil && (p.in == nil || !p.in.o.NoLinks || vfs.KindOf(n) != vfs.LinkKind) {
			return n, nil
		}
		n.Close() // the target of a mount's directory, if it is no link
		if m == nil {
			return nil, vfs.ErrNoLinks
		}
	}
	return &nsDir{ns: d.ns, in: p.in, path: strings.Join(append(d.names(), name), "/")}, nil
}

// LookPath implements [vfs.PathLooker]. It asks only the tree of the last mount on the way,
// unless a directory of another tree leads to that mount.
func (d *nsDir) LookPath(ctx context.Context, names []string) (vfs.Node, error) {
	p, err := d.now()
	if err != nil {
		return nil, err
	}
	for ; len(names) > 0; names = names[1:] {
		m := p.mounted(names[0])
		if m == nil {
			break
		}
		switch {
		case m.mount != nil && !m.mount.shut.Load():
			p = nsPlace{p.table, m, m.mount, m.mount.root}
		case m.mount == nil && p.dir == nil:
			p.at = m
		default:
			return nil, vfs.ErrStepwise
		}
	}
	switch {
	case p.dir == nil:
		return nil, vfs.ErrStepwise
	case len(names) == 0:
		return d.ns.rootOf(p.at), nil
	}
	n, err := vfs.LookPath(ctx, p.dir, names)
	if err != nil {
		return nil, err
	}
	if dir, ok := n.(vfs.Dir); ok {
		return d.below(p, dir, nil), nil
	}
	if p.in.o.NoLinks && vfs.KindOf(n) == vfs.LinkKind {
		n.Close()
		return nil, vfs.ErrNoLinks
	}
	return n, nil
}

// rootOf returns the root of the mount at m.
func (n *Namespace) rootOf(m *mountPoint) *nsDir {
	root := &nsDir{ns: n, in: m.mount, dir: m.mount.root}
	root.seen.Store(m.seen)
	return root
}

// covered reports an error of a tree for a name that leads to a mount. The mount covers
// what the tree has there.
func covered(err error) bool {
	switch vfs.CodeOf(err) {
	case vfs.NotFound, vfs.NotRegular, vfs.CrossDevice, vfs.Denied:
		return true
	}
	return false
}

// below returns a directory in p's tree. It is at m if m is not nil.
func (d *nsDir) below(p nsPlace, dir vfs.Dir, m *mountPoint) *nsDir {
	b := &nsDir{ns: d.ns, in: p.in, dir: dir}
	if m == nil {
		b.seen.Store(p.table.plain)
	} else {
		b.seen.Store(m.seen)
	}
	return b
}

func (d *nsDir) List(ctx context.Context) iter.Seq2[vfs.Entry, error] { return d.ListFrom(ctx, "") }

// ListFrom implements [vfs.FromLister].
func (d *nsDir) ListFrom(ctx context.Context, from string) iter.Seq2[vfs.Entry, error] {
	return func(yield func(vfs.Entry, error) bool) {
		p, err := d.now()
		if err != nil {
			yield(vfs.Entry{}, err)
			return
		}
		var mounts []string
		if p.at != nil {
			first, _ := slices.BinarySearch(p.at.names, from)
			mounts = p.at.names[first:]
		}
		if p.dir != nil {
			for e, err := range vfs.ListFrom(ctx, p.dir, from) {
				if err != nil {
					yield(vfs.Entry{}, err)
					return
				}
				for len(mounts) > 0 && mounts[0] < e.Name {
					if !yield(vfs.Entry{Name: mounts[0], Kind: vfs.DirKind}, nil) {
						return
					}
					mounts = mounts[1:]
				}
				if len(mounts) > 0 && mounts[0] == e.Name {
					continue // covered by the mount
				}
				if !yield(e, nil) {
					return
				}
			}
		}
		for _, name := range mounts {
			if !yield(vfs.Entry{Name: name, Kind: vfs.DirKind}, nil) {
				return
			}
		}
	}
}

// Scan implements [vfs.Scanner] for directories of one tree with no mount below.
func (d *nsDir) Scan(ctx context.Context, names []string, most int, found func(string, []vfs.Entry, bool)) error {
	p, err := d.now()
	if err != nil {
		return err
	}
	if p.dir == nil || p.at != nil {
		return vfs.Unsupported
	}
	return vfs.Scan(ctx, p.dir, names, most, found)
}

// Visit implements [vfs.Visitor]. It leaves out names that mounts cover.
func (d *nsDir) Visit(ctx context.Context, dir, names []string, window []byte, see func(vfs.Visited) bool) error {
	p, err := d.now()
	if err != nil {
		return err
	}
	for len(dir) > 0 {
		m := p.mounted(dir[0])
		if m == nil {
			break // no mount is below
		}
		if m.mount == nil || m.mount.shut.Load() {
			return vfs.VisitEach(ctx, d, dir, names, window, see)
		}
		p, dir = nsPlace{p.table, m, m.mount, m.mount.root}, dir[1:]
	}
	if p.dir == nil {
		return vfs.VisitEach(ctx, d, dir, names, window, see)
	}
	if len(dir) == 0 {
		names = slices.DeleteFunc(slices.Clone(names), func(name string) bool { return p.mounted(name) != nil })
	}
	return vfs.Visit(ctx, p.dir, dir, names, window, see)
}

// Any implements [vfs.Searcher].
func (d *nsDir) Any(ctx context.Context, is func(vfs.Entry) bool) (bool, error) {
	p, err := d.now()
	if err != nil {
		return false, err
	}
	if p.at != nil {
		for _, name := range p.at.names {
			if is(vfs.Entry{Name: name, Kind: vfs.DirKind}) {
				return true, nil
			}
		}
	}
	if p.dir == nil {
		return false, nil
	}
	return vfs.Any(ctx, p.dir, func(e vfs.Entry) bool { return p.mounted(e.Name) == nil && is(e) })
}
