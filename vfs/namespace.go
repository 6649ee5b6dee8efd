package vfs

import (
	"context"
	"io"
	"iter"
	"slices"
	"sync/atomic"
	"time"
)

// Namespace returns one tree composed of others, each at its path ("" for the
// root). A tree hides what lies beneath it in another; the directories that
// lead to one exist by themselves and cannot be changed. A place where a tree
// is mounted, or that leads to one, can be neither removed nor renamed nor
// overwritten (busy). Between trees Rename answers crossDevice. The namespace
// takes over the trees, and closes each when the root is closed and every
// directory opened from it that is in the tree or leads to one.
//
// It answers invalid or limit for a bad path, and then takes over nothing.
func Namespace(trees map[string]Dir) (Dir, error) {
	root := &mountPoint{}
	ns := &namespace{}
	for path, tree := range trees {
		at := root
		if path != "" {
			names, err := SplitPath(path)
			if err != nil {
				return nil, At(path, err)
			}
			for _, name := range names {
				if err := CheckNewName(name); err != nil {
					return nil, At(path, err)
				}
				at = at.child(name)
			}
		}
		at.tree = tree
		ns.trees = append(ns.trees, tree)
	}
	return root.open(ns, nil, nil, time.Now().UnixMilli()), nil
}

// namespace is what its directories have in common: the trees, open as long as
// a directory is from which one can be reached.
type namespace struct {
	trees []Dir
	refs  atomic.Int64
}

func (ns *namespace) release() {
	if ns.refs.Add(-1) == 0 {
		for _, tree := range ns.trees {
			tree.Close()
		}
	}
}

// mountPoint is a place where a tree is mounted or that leads to one.
type mountPoint struct {
	tree  Dir // nil where nothing is mounted
	below map[string]*mountPoint
	names []string // of below, sorted
}

func (m *mountPoint) child(name string) *mountPoint {
	if c := m.below[name]; c != nil {
		return c
	}
	if m.below == nil {
		m.below = map[string]*mountPoint{}
	}
	c := &mountPoint{}
	m.below[name] = c
	i, _ := slices.BinarySearch(m.names, name)
	m.names = slices.Insert(m.names, i, name)
	return c
}

// open returns the directory at m. under is what the tree around it, in, has
// there, or nil; it is taken over.
func (m *mountPoint) open(ns *namespace, in *mountPoint, under Dir, born int64) *nsDir {
	ns.refs.Add(1)
	d := &nsDir{ns: ns, at: m, in: in, dir: under, own: under != nil, born: born}
	if m.tree != nil {
		if under != nil {
			under.Close()
		}
		d.in, d.dir, d.own = m, m.tree, false
	}
	return d
}

// nsDir is a directory of a namespace: the mounts below it, over a directory of
// the tree it is in.
type nsDir struct {
	ns     *namespace  // which it holds, if at is not nil
	at     *mountPoint // nil where no mount is below
	in     *mountPoint // where the tree is mounted that dir is of
	dir    Dir         // nil where there is nothing but mounts
	own    bool        // dir is closed with d; a tree's root is not
	born   int64
	closed closer
}

// mounted reports a name that is a mount or leads to one.
func (d *nsDir) mounted(name string) *mountPoint {
	if d.at == nil {
		return nil
	}
	return d.at.below[name]
}

// changeable answers whether the entry name may be changed in d.
func (d *nsDir) changeable(name string) error {
	if err := d.closed.check(); err != nil {
		return err
	}
	if d.mounted(name) != nil {
		return Errorf(Busy, "this name is fixed, or one below it is; it cannot be changed here")
	}
	if d.dir == nil {
		if err := CheckName(name); err != nil {
			return err
		}
		return Errorf(ReadOnly, "this directory only leads to others; nothing can be made in it")
	}
	return nil
}

// Tries implements [Trier].
func (d *nsDir) Tries() bool { return d.dir == nil || CanTry(d.dir) }

func (d *nsDir) Stat(ctx context.Context) (Info, error) {
	if err := d.closed.check(); err != nil {
		return Info{}, err
	}
	if d.dir == nil {
		return Info{Kind: DirKind, ModifiedMs: d.born}, nil
	}
	return d.dir.Stat(ctx)
}

func (d *nsDir) Close() error {
	if d.closed.close() {
		if d.own {
			d.dir.Close()
		}
		if d.at != nil {
			d.ns.release()
		}
	}
	return nil
}

// onRevoke passes on what d's tree is told.
func (d *nsDir) onRevoke(f func(error)) (stop func()) {
	if w, ok := d.dir.(watchable); ok {
		return w.onRevoke(f)
	}
	return func() {}
}

// errNoTree is notFound where there is no tree for the name to be in: [Walk] tells
// a link that rises out of its tree to there from one that dangles.
var errNoTree = Errorf(NotFound, "nothing has this name; list() shows what is here")

func (d *nsDir) Lookup(ctx context.Context, name string) (Node, error) {
	if err := first(d.closed.check(), CheckName(name)); err != nil {
		return nil, err
	}
	m := d.mounted(name)
	if m != nil && m.tree != nil {
		return m.open(d.ns, nil, nil, d.born), nil
	}
	var n Node
	if d.dir != nil {
		found, err := d.dir.Lookup(ctx, name)
		if err != nil && (m == nil || !hidden(err)) {
			return nil, err
		}
		n = found
	}
	under, ok := n.(Dir)
	switch {
	case m != nil:
		if n != nil && !ok { // a file where a mount's directories lead
			n.Close()
		}
		return m.open(d.ns, d.in, under, d.born), nil
	case n == nil:
		return nil, errNoTree
	case !ok:
		return n, nil
	}
	return d.below(under), nil
}

// hidden reports an error of a tree for a name that leads to a mount, which
// hides it.
func hidden(err error) bool {
	switch CodeOf(err) {
	case NotFound, NotRegular, CrossDevice, Denied:
		return true
	}
	return false
}

// below is a directory of d's tree with no mount below it.
func (d *nsDir) below(dir Dir) *nsDir { return &nsDir{in: d.in, dir: dir, own: true, born: d.born} }

func (d *nsDir) List(ctx context.Context) iter.Seq2[Entry, error] {
	return func(yield func(Entry, error) bool) {
		if err := d.closed.check(); err != nil {
			yield(Entry{}, err)
			return
		}
		var mounts []string
		if d.at != nil {
			mounts = d.at.names
		}
		if d.dir != nil {
			for e, err := range d.dir.List(ctx) {
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
					continue // hidden by the mount
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

func (d *nsDir) Create(ctx context.Context, name string) (File, error) {
	if err := d.free(name); err != nil {
		return nil, err
	}
	return d.dir.Create(ctx, name)
}

func (d *nsDir) Mkdir(ctx context.Context, name string) (Dir, error) {
	if err := d.free(name); err != nil {
		return nil, err
	}
	made, err := d.dir.Mkdir(ctx, name)
	if err != nil {
		return nil, err
	}
	return d.below(made), nil
}

// free is changeable for a name that is to be new: a mount there exists.
func (d *nsDir) free(name string) error {
	if d.mounted(name) != nil {
		return first(d.closed.check(), Exists)
	}
	return d.changeable(name)
}

func (d *nsDir) Replace(ctx context.Context, name string, r io.Reader, c If) (Version, error) {
	if d.mounted(name) != nil {
		return Version{}, first(d.closed.check(), IsDir)
	}
	if err := d.changeable(name); err != nil {
		return Version{}, err
	}
	return d.dir.Replace(ctx, name, r, c)
}

func (d *nsDir) Remove(ctx context.Context, name string, c If) error {
	if err := d.changeable(name); err != nil {
		return err
	}
	return d.dir.Remove(ctx, name, c)
}

func (d *nsDir) Rename(ctx context.Context, name string, dst Dir, newName string, from, to If) error {
	if err := d.changeable(name); err != nil {
		return err
	}
	n, ok := dst.(*nsDir)
	if !ok {
		return CrossDevice
	}
	if err := n.changeable(newName); err != nil {
		return err
	}
	if d.in != n.in {
		return CrossDevice
	}
	return d.dir.Rename(ctx, name, n.dir, newName, from, to)
}
