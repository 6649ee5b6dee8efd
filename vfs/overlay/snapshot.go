package overlay

import (
	"context"
	"maps"
	"slices"
	"strings"

	"capd/vfs"
	"capd/vfs/diff"
)

// snapshot is the overlay's tree at one moment. lower and shown look at what is there now,
// most cheaply in tree order.
type snapshot struct {
	o            *Overlay
	root         vfs.Dir
	lower, shown *diff.Cursor

	nodes []snapshotNode    // parents first, in byte order of names
	at    map[string]int    // index in nodes, by path
	shows map[string]string // by lower path: the path of the node that reads through to it
	bases map[string]base
}

// snapshotNode is one node of the tree.
type snapshotNode struct {
	path    string
	kind    vfs.Kind
	through bool // it reads through to its own path
	stands  bool // it exists, whatever the lower tree has there
	moved   bool // it reads through to another path, origin
	origin  string
	implied string // the lower path whose base is what was here
	state   *state
}

// unchanged calls do with a snapshot while the overlay does not change.
func (o *Overlay) unchanged(ctx context.Context, do func(*snapshot) error) error {
	return o.oneTurn(ctx, func(ctx context.Context) error {
		s := o.snapshot()
		defer s.close()
		return do(s)
	})
}

// snapshot takes a snapshot. The caller closes it.
func (o *Overlay) snapshot() *snapshot {
	o.mu.RLock()
	defer o.mu.RUnlock()
	root := o.Root()
	s := &snapshot{o: o, root: root, lower: diff.NewCursor(o.lower), shown: diff.NewCursor(root),
		at: map[string]int{}, shows: map[string]string{"": ""}, bases: maps.Clone(o.bases)}
	s.add(o.root, "")
	return s
}

func (s *snapshot) close() {
	s.lower.Close()
	s.shown.Close()
	s.root.Close()
}

func (s *snapshot) add(d *node, path string) {
	for _, name := range slices.Sorted(maps.Keys(d.children)) {
		n, at := d.children[name], vfs.Join(path, name)
		implied, ok := d.implied(name)
		if !ok {
			implied = at
		}
		s.at[at] = len(s.nodes)
		s.nodes = append(s.nodes, snapshotNode{path: at, kind: n.kind, through: n.through(), stands: n.stands(), moved: n.below && n.origin != at,
			origin: n.origin, implied: implied, state: n.state()})
		if n.below {
			s.shows[n.origin] = at
		}
		s.add(n, at)
	}
}

// where returns the path at which a lower path is shown, whether or not a node is
// there. ok is false when it is shown nowhere.
func (s *snapshot) where(path string) (at string, ok bool) {
	rest := ""
	for up := path; ; {
		if at, ok := s.shows[up]; ok {
			if rest == "" {
				return at, true
			}
			if i, ok := s.at[at]; ok && s.nodes[i].kind != vfs.DirKind {
				return "", false
			}
			first, _, _ := strings.Cut(rest, "/")
			if i, ok := s.at[vfs.Join(at, first)]; ok && !s.nodes[i].through {
				return "", false
			}
			return vfs.Join(at, rest), true
		}
		parent, name := diff.Split(up)
		rest = strings.TrimSuffix(name+"/"+rest, "/")
		up = parent
	}
}

// before returns the lower path with which n is compared: n's own path, moved together
// with its directory, if something was removed or moved away there.
func (s *snapshot) before(n snapshotNode) string {
	parent, _ := diff.Split(n.path)
	_, shown := s.shows[parent]
	if b, known := s.bases[n.path]; known && !shown && (b.moved || !b.state.Absent()) {
		return n.path
	}
	return n.implied
}

// visible returns the state that the overlay shows at path, which may be nothing.
func (s *snapshot) visible(ctx context.Context, path string) (diff.State, error) {
	is, err := stateAt(ctx, path, s.shown.Open)
	if vfs.CodeOf(err) == vfs.NotRegular {
		return diff.State{}, nil
	}
	return is, err
}

// lowerState returns the state of path in the lower tree, which may be nothing.
func (s *snapshot) lowerState(ctx context.Context, path string) (diff.State, error) {
	return stateAt(ctx, path, s.lower.Open)
}

// both returns the states of path in the lower tree and in the overlay.
func (s *snapshot) both(ctx context.Context, path string) (lower, shown diff.State, err error) {
	if lower, err = s.lowerState(ctx, path); err == nil {
		shown, err = s.visible(ctx, path)
	}
	return lower, shown, err
}

// open opens what the overlay shows at path.
func (o *Overlay) open(ctx context.Context, path string) (vfs.Node, error) {
	root := o.Root()
	if path == "" {
		return root, nil
	}
	defer root.Close()
	var n vfs.Node
	err := steady(ctx, func() (err error) {
		n, err = walk(ctx, root.(*dir), path)
		return err
	})
	return n, err
}
