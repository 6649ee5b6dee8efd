package overlay

import (
	"context"

	"capd/vfs"
)

// ref is a reference to a node. For a directory, in is its own place. A file or a link
// is identified by its place alone: name in the directory at in.
type ref struct {
	o      *Overlay
	in     *place
	name   string
	kind   vfs.Kind
	window openNodes
}

// Close implements vfs.Node.
func (r *ref) Close() error {
	if !r.window.close() || r.in.parent == nil {
		return nil
	}
	r.o.mu.Lock()
	defer r.o.mu.Unlock()
	if r.in.node.refs.Add(-1) == 0 {
		r.o.rest(r.in.node)
	}
	return nil
}

// Tries implements vfs.Trier.
func (r *ref) Tries() bool { return vfs.CanTry(r.o.lower) && vfs.CanTry(r.o.contents.dir) }

// here returns the directory at r's place. Needs mu.
func (r *ref) here() (*node, error) {
	r.window.mu.Lock()
	closed := r.window.closed
	r.window.mu.Unlock()
	if closed {
		return nil, vfs.Stale
	}
	return r.in.directory()
}

// lookedUp is what is at a name, and where it comes from.
type lookedUp struct {
	kind vfs.Kind // gone means that nothing is there
	node *node    // of the overlay's own tree, if it has one; also a directory that reads through

	content *content // of a file that was written
	exec    bool     // of that file
	target  string   // of a link that was made
	lower   vfs.Node // what is read through, at origin
	origin  string
}

// close closes what was opened by the lookup.
func (s *lookedUp) close() {
	if s.lower != nil {
		s.lower.Close()
		s.lower = nil
	}
}

// see looks up name in the directory at r's place.
func (r *ref) see(ctx context.Context, name string) (s lookedUp, err error) {
	if err := r.o.look(ctx); err != nil {
		return s, err
	}
	here, err := r.here()
	if err != nil {
		r.o.mu.RUnlock()
		return s, err
	}
	n := here.children[name]
	holds, through := false, true
	if n != nil {
		s = lookedUp{kind: n.kind, node: n, content: n.content, exec: n.exec, target: n.target}
		holds, through = n.holds(), n.through()
	}
	path, below := here.implied(name)
	if n != nil && !through {
		path, below = n.origin, n.below && n.kind != vfs.DirKind
	}
	origin, held := here.origin, here.holds()
	r.o.mu.RUnlock()

	if !below {
		return s, nil
	}
	var found vfs.Node
	if through {
		found, err = r.lookup(ctx, origin, name, held)
	} else {
		found, err = r.o.lowerAt(ctx, path)
	}
	switch {
	case missing(err):
		if !holds {
			s.kind = gone
		}
		return s, nil
	case replaced(err) && holds:
		return s, nil
	case err != nil:
		return lookedUp{}, err
	}
	kind := vfs.KindOf(found)
	switch {
	case n == nil || through && !holds:
		s.kind = kind
	case kind != s.kind: // its kind changed meanwhile: it is not what the overlay recorded
		found.Close()
		if !through {
			s.kind = gone
		}
		return s, nil
	}
	s.lower, s.origin = found, path
	return s, nil
}

// lookup looks up name in the lower directory at path. stands is as in beneath: a
// directory that does not stand by itself is stale when the lower directory no longer
// exists.
func (r *ref) lookup(ctx context.Context, path, name string, stands bool) (found vfs.Node, err error) {
	there := false
	err = r.beneath(ctx, path, stands, func(n vfs.Node) error {
		d, ok := n.(vfs.Dir)
		if !ok {
			return vfs.NotFound
		}
		there = true
		found, err = d.Lookup(ctx, name)
		return err
	})
	if !stands && !there && missing(err) {
		err = vfs.Stale
	}
	return found, err
}
