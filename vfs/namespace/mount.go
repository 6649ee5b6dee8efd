package namespace

import (
	"slices"
	"strings"
	"sync/atomic"

	"capd/vfs"
	"capd/vfs/membrane"
)

// mount is one tree of a namespace, behind a membrane of its own. That membrane's gate
// refuses the places that other mounts cover.
type mount struct {
	path  string
	names []string // the names of path
	root  vfs.Dir
	base  string // the path of root behind its membrane
	gate  *membrane.Gate
	tree  vfs.Dir // nil when root has it
	o     Options
	shut  atomic.Bool

	release func()            // of gate
	covered map[*mount]func() // by the covering mount: how to uncover again; under Namespace.mu
}

func newMount(path string, names []string, tree vfs.Dir, o Options) (*mount, error) {
	m := &mount{path: path, names: names, o: o, covered: map[*mount]func(){}}
	if err := m.guard(tree); err != nil {
		return nil, err
	}
	place, _ := membrane.PlaceOf(m.root)
	m.base = place.Path
	return m, nil
}

// guard puts tree behind a membrane. One is enough.
func (m *mount) guard(tree vfs.Dir) error {
	if _, guarded := membrane.PlaceOf(tree); guarded && len(m.o.Guards) == 0 {
		d, c, err := membrane.RevocableDir(tree)
		if err != nil {
			return err
		}
		if m.o.ReadOnly {
			locked, err := membrane.ReadOnlyDir(d)
			d.Close()
			if err != nil {
				c.Release()
				return err
			}
			d = locked
		}
		m.root, m.gate, m.tree, m.release = d, c.Gate, tree, c.Release
		return nil
	}
	own := membrane.Guard{ReadOnly: m.o.ReadOnly}
	if !slices.ContainsFunc(m.o.Guards, func(g membrane.Guard) bool { return g.Bulkhead != nil }) {
		own.Bulkhead = membrane.NewBulkhead(0)
	}
	m.gate = membrane.NewGate()
	m.root, m.release = membrane.Guarded(tree, m.gate, append(slices.Clip(m.o.Guards), own)...), m.gate.Release
	return nil
}

// close closes the tree. No call goes through it any more.
func (m *mount) close() {
	m.root.Close()
	if m.tree != nil {
		m.tree.Close()
	}
	m.release()
	if m.o.OnClose != nil {
		m.o.OnClose()
	}
}

// cover hides what b covers in m. uncover undoes it.
func (m *mount) cover(b *mount) { m.covered[b] = m.gate.Cover(b.names[len(m.names):]) }

func (m *mount) uncover(b *mount) {
	if show := m.covered[b]; show != nil {
		show()
		delete(m.covered, b)
	}
}

// mountTable is what is mounted at one time. It never changes.
type mountTable struct {
	all    []*mount // in byte order of paths
	root   *mountPoint
	plain  *seen // shared by every directory that has no mount below it and is not covered
	closed bool
}

var closedTable = func() *mountTable {
	t := newMountTable(nil)
	t.closed = true
	return t
}()

// mountPoint is a place where a tree is mounted, or a directory on the way to one.
type mountPoint struct {
	mount *mount // nil where nothing is mounted
	below map[string]*mountPoint
	names []string // names of below, sorted
	seen  *seen    // shared by the directories there
}

func newMountTable(all []*mount) *mountTable {
	slices.SortFunc(all, func(a, b *mount) int { return strings.Compare(a.path, b.path) })
	t := &mountTable{all: all}
	t.plain, t.root = &seen{table: t}, t.point()
	for _, m := range all {
		at := t.root
		for _, name := range m.names {
			at = t.child(at, name)
		}
		at.mount = m
	}
	return t
}

func (t *mountTable) point() *mountPoint {
	p := &mountPoint{}
	p.seen = &seen{table: t, at: p}
	return p
}

func (t *mountTable) child(p *mountPoint, name string) *mountPoint {
	if c := p.below[name]; c != nil {
		return c
	}
	if p.below == nil {
		p.below = map[string]*mountPoint{}
	}
	c := t.point()
	p.below[name] = c
	i, _ := slices.BinarySearch(p.names, name)
	p.names = slices.Insert(p.names, i, name)
	return c
}

// find returns the point at names, or nil, and the mount whose tree contains that
// place, or nil.
func (t *mountTable) find(names []string) (at *mountPoint, in *mount) {
	at, in = t.root, t.root.mount
	for _, name := range names {
		if at = at.below[name]; at == nil {
			return nil, in
		}
		if at.mount != nil {
			in = at.mount
		}
	}
	return at, in
}

// around returns the mount whose tree would contain names if nothing were mounted
// there, or nil.
func (t *mountTable) around(names []string) *mount {
	if len(names) == 0 {
		return nil
	}
	_, in := t.find(names[:len(names)-1])
	return in
}

// directlyBelow returns the mounts below names that are not inside a mount other than
// m.
func (t *mountTable) directlyBelow(m *mount, names []string) []*mount {
	var all []*mount
	for _, b := range t.all {
		if len(b.names) > len(names) && slices.Equal(b.names[:len(names)], names) && t.around(b.names) == m {
			all = append(all, b)
		}
	}
	return all
}
