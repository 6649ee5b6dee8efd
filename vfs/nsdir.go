package vfs

import (
	"context"
	"iter"
	"slices"
	"strings"
	"sync/atomic"
)

// nsDir is a directory of a namespace: mounts below it, and a directory of the tree
// that contains it.
type nsDir struct {
	ns     *Namespace
	root   bool     // of the namespace; then the next three come from the table
	in     *mount   // the mount whose tree contains it, if any
	dir    *dirView // nil where there are only mounts
	path   string   // used where dir is nil
	seen   atomic.Pointer[seen]
	closed closer
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
	dir   *dirView
}

var errLed = Errorf(Stale, "nothing is mounted below this directory any more; look it up again")

// now answers stale for a directory that is closed or covered, or whose tree was
// unmounted.
func (d *nsDir) now() (nsPlace, error) {
	t := d.ns.table.Load()
	if err := d.closed.check(); err != nil || t.closed {
		return nsPlace{}, first(err, errUnmounted)
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
		return &seen{t, nil, errUnmounted}
	case in != d.in:
		return &seen{t, nil, errHidden}
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
		path = strings.TrimPrefix(strings.TrimPrefix(d.dir.path, d.in.root.path), "/")
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

// Tries implements [Trier].
func (d *nsDir) Tries() bool {
	p, err := d.now()
	return err != nil || p.dir == nil || CanTry(p.dir)
}

func (d *nsDir) Stat(ctx context.Context) (Info, error) {
	p, err := d.now()
	if err != nil {
		return Info{}, err
	}
	if p.dir == nil {
		return Info{Kind: DirKind, ModifiedMs: d.ns.born}, nil
	}
	return p.dir.Stat(ctx)
}

func (d *nsDir) Close() error {
	if d.closed.close() && d.dir != nil && d.dir != d.in.root {
		d.dir.Close()
	}
	return nil
}

// onRevoke watches d's tree. The root has none.
func (d *nsDir) onRevoke(f func(error)) (stop func()) {
	if d.dir == nil {
		return func() {}
	}
	return d.dir.onRevoke(f)
}

// errNoTree is notFound where no tree contains the name. By it [Walk] can tell a link
// that leads out of its tree from a dangling one.
var errNoTree = Errorf(NotFound, "nothing has this name; list() shows what is here")

var errNoLinks = Errorf(Denied, "links are refused in this part of the tree, whether or not they lead anywhere")

func (d *nsDir) Lookup(ctx context.Context, name string) (Node, error) {
	p, err := d.now()
	if err = first(err, CheckName(name)); err != nil {
		return nil, err
	}
	m := p.mounted(name)
	if m != nil && m.mount != nil {
		root := &nsDir{ns: d.ns, in: m.mount, dir: m.mount.root}
		root.seen.Store(m.seen)
		return root, nil
	}
	var n Node
	if p.dir != nil {
		found, err := p.dir.Lookup(ctx, name)
		if err != nil && (m == nil || !covered(err)) {
			return nil, err
		}
		n = found
	}
	switch under := n.(type) {
	case *dirView:
		return d.below(p, under, m), nil
	case nil:
		if m == nil {
			return nil, errNoTree
		}
	default:
		if m == nil && (p.in == nil || !p.in.o.NoLinks || KindOf(n) != LinkKind) {
			return n, nil
		}
		n.Close() // the target of a mount's directory, if it is no link
		if m == nil {
			return nil, errNoLinks
		}
	}
	return &nsDir{ns: d.ns, in: p.in, path: strings.Join(append(d.names(), name), "/")}, nil
}

// covered reports an error of a tree for a name that leads to a mount. The mount covers
// what the tree has there.
func covered(err error) bool {
	switch CodeOf(err) {
	case NotFound, NotRegular, CrossDevice, Denied:
		return true
	}
	return false
}

// below returns a directory in p's tree. It is at m if m is not nil.
func (d *nsDir) below(p nsPlace, dir *dirView, m *mountPoint) *nsDir {
	b := &nsDir{ns: d.ns, in: p.in, dir: dir}
	if m == nil {
		b.seen.Store(p.table.plain)
	} else {
		b.seen.Store(m.seen)
	}
	return b
}

func (d *nsDir) List(ctx context.Context) iter.Seq2[Entry, error] { return d.ListFrom(ctx, "") }

// ListFrom implements [FromLister].
func (d *nsDir) ListFrom(ctx context.Context, from string) iter.Seq2[Entry, error] {
	return func(yield func(Entry, error) bool) {
		p, err := d.now()
		if err != nil {
			yield(Entry{}, err)
			return
		}
		var mounts []string
		if p.at != nil {
			first, _ := slices.BinarySearch(p.at.names, from)
			mounts = p.at.names[first:]
		}
		if p.dir != nil {
			for e, err := range p.dir.ListFrom(ctx, from) {
				if err != nil {
					yield(Entry{}, err)
					return
				}
				for len(mounts) > 0 && mounts[0] < e.Name {
					if !yield(Entry{mounts[0], DirKind}, nil) {
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
			if !yield(Entry{name, DirKind}, nil) {
				return
			}
		}
	}
}
