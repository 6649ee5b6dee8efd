package overlay

import (
	"context"
	"maps"
	"slices"
	"strings"

	"capd/vfs"
	"capd/vfs/batch"
)

// survey is what the overlay knows, as it was at one moment.
type survey struct {
	nodes []surveyed        // parents first, in byte order of names
	at    map[string]int    // nodes, by path
	shows map[string]string // where what is at a lower path is shown: of nodes that read through
	bases map[string]base
}

// surveyed is one node of the tree.
type surveyed struct {
	path    string
	kind    vfs.Kind
	through bool // it is where it is in the lower tree
	moved   bool // it reads through to another place, origin
	origin  string
	implied string // the lower path whose base says what was here
	state   *state
}

// survey takes a survey.
func (o *Overlay) survey() *survey {
	o.mu.RLock()
	defer o.mu.RUnlock()
	s := &survey{at: map[string]int{}, shows: map[string]string{"": ""}, bases: maps.Clone(o.bases)}
	s.add(o.root, "")
	return s
}

func (s *survey) add(d *node, path string) {
	for _, name := range slices.Sorted(maps.Keys(d.children)) {
		n, at := d.children[name], vfs.Join(path, name)
		implied, ok := d.implied(name)
		if !ok {
			implied = at
		}
		s.at[at] = len(s.nodes)
		s.nodes = append(s.nodes, surveyed{path: at, kind: n.kind, through: n.through(), moved: n.below && n.origin != at,
			origin: n.origin, implied: implied, state: n.state()})
		if n.below {
			s.shows[n.origin] = at
		}
		s.add(n, at)
	}
}

// where returns the place at which what is at a lower path is shown, whether anything
// is there or not; ok is false when it is shown nowhere.
func (s *survey) where(path string) (at string, ok bool) {
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
		parent, name := split(up)
		rest = strings.TrimSuffix(name+"/"+rest, "/")
		up = parent
	}
}

// before is the lower path at which the tree below had what n is to be compared with:
// where n is, if something was removed or moved away there, together with its directory.
func (s *survey) before(n surveyed) string {
	parent, _ := split(n.path)
	_, shown := s.shows[parent]
	if b, known := s.bases[n.path]; known && !shown && (b.moved || !b.state.Absent()) {
		return n.path
	}
	return n.implied
}

// visible says what the overlay shows at path, which may be nothing.
func (o *Overlay) visible(ctx context.Context, path string) (batch.State, error) {
	s, err := stateAt(ctx, path, o.open)
	if vfs.CodeOf(err) == vfs.NotRegular {
		return batch.State{}, nil
	}
	return s, err
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
