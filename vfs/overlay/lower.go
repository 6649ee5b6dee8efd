package overlay

import (
	"context"
	"slices"
	"strings"
	"sync"

	"capd/vfs"
	"capd/vfs/diff"
)

// lowerAt opens the node at path in the lower tree. It follows no link. It also answers
// notFound when a name on the way is not a directory.
func (o *Overlay) lowerAt(ctx context.Context, path string) (n vfs.Node, err error) {
	err = steady(ctx, func() error {
		n, err = walk(ctx, o.lower, path)
		return err
	})
	return n, err
}

// steady runs look, and runs it again when it answers stale, since somebody may have
// moved a directory that it had open. A second stale is returned: it does not mean that
// nothing is there.
func steady(ctx context.Context, look func() error) (err error) {
	for range 4 {
		if err = look(); vfs.CodeOf(err) != vfs.Stale || ctx.Err() != nil {
			break
		}
	}
	return err
}

// walk opens the node at path below d, which stays open.
func walk(ctx context.Context, d vfs.Dir, path string) (vfs.Node, error) {
	names := strings.Split(path, "/")
	if len(names) <= vfs.MaxLooked && ready(ctx, d) == nil {
		if n, err := vfs.LookPath(ctx, d, names); err != vfs.ErrStepwise {
			return n, err
		}
	}
	var at vfs.Node = d
	for _, name := range names {
		in, ok := at.(vfs.Dir)
		err := error(vfs.NotFound)
		var next vfs.Node
		if ok {
			if err = ready(ctx, in); err == nil {
				next, err = in.Lookup(ctx, name)
			}
		}
		if at != vfs.Node(d) {
			at.Close()
		}
		if err != nil {
			return nil, err
		}
		at = next
	}
	return at, nil
}

// missing reports errors that say that nothing is there. Stale is not one.
func missing(err error) bool {
	code := vfs.CodeOf(err)
	return code == vfs.NotFound || code == vfs.NotDir
}

// replaced reports errors that say that something other than a directory is there.
func replaced(err error) bool {
	code := vfs.CodeOf(err)
	return code == vfs.NotRegular || code == vfs.CrossDevice
}

// openNodes are the nodes of the lower tree that a reference has open. Usually there is
// only one.
type openNodes struct {
	mu     sync.Mutex
	closed bool
	nodes  []openNode
	one    [1]openNode // where nodes begins
}

type openNode struct {
	path string // in the lower tree
	node vfs.Node
}

// find returns the node at path, nil if it is not open. Needs mu.
func (w *openNodes) find(path string) vfs.Node {
	for _, n := range w.nodes {
		if n.path == path {
			return n.node
		}
	}
	return nil
}

// add adds n, which is at path. Needs mu.
func (w *openNodes) add(path string, n vfs.Node) {
	if w.nodes == nil {
		w.nodes = w.one[:0]
	}
	w.nodes = append(w.nodes, openNode{path, n})
}

// keep keeps n, which is at path, open until the set is closed.
func (w *openNodes) keep(path string, n vfs.Node) (vfs.Node, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.closed {
		n.Close()
		return nil, vfs.Stale
	}
	if other := w.find(path); other != nil {
		n.Close()
		return other, nil
	}
	w.add(path, n)
	return n, nil
}

// at returns the node at path in the lower tree, and opens it if it is not open.
func (w *openNodes) at(ctx context.Context, o *Overlay, path string) (vfs.Node, error) {
	w.mu.Lock()
	n := w.find(path)
	w.mu.Unlock()
	if n == nil {
		if path == "" {
			return o.lower, ready(ctx, o.lower)
		}
		found, err := o.lowerAt(ctx, path)
		if err != nil {
			return nil, err
		}
		if n, err = w.keep(path, found); err != nil {
			return nil, err
		}
	}
	return n, ready(ctx, n)
}

// drop closes n, which went stale. The next at opens what is at path then.
func (w *openNodes) drop(path string, n vfs.Node) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if n != nil && w.find(path) == n {
		w.nodes = slices.DeleteFunc(w.nodes, func(o openNode) bool { return o.path == path })
		n.Close()
	}
}

// beneath runs do on the lower node at path. If that node went stale, and the overlay's
// directory stands by itself, it runs do on the node that replaced it: such a directory
// exists whatever happens to the lower one.
func (r *ref) beneath(ctx context.Context, path string, stands bool, do func(vfs.Node) error) error {
	ask := func() error {
		n, err := r.window.at(ctx, r.o, path)
		if err == nil {
			err = do(n)
		}
		if stands && path != "" && vfs.CodeOf(err) == vfs.Stale {
			r.window.drop(path, n)
		}
		return err
	}
	if !stands {
		return ask()
	}
	return steady(ctx, ask)
}

// close reports whether this call closed it.
func (w *openNodes) close() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.closed {
		return false
	}
	w.closed = true
	for _, n := range w.nodes {
		n.node.Close()
	}
	w.nodes = nil
	return true
}

// stateOf returns n's state. A file too long to have a version has the zero version.
func stateOf(ctx context.Context, n vfs.Node) (diff.State, error) {
	s, err := diff.StateOf(ctx, n)
	if vfs.CodeOf(err) == vfs.TooLarge {
		err = nil
	}
	return s, err
}

// stateAt returns the state of what open opens at path, which may be nothing.
func stateAt(ctx context.Context, path string, open func(context.Context, string) (vfs.Node, error)) (s diff.State, err error) {
	err = steady(ctx, func() error {
		n, err := open(ctx, path)
		if err == nil {
			s, err = stateOf(ctx, n)
			n.Close()
		}
		return err
	})
	if missing(err) {
		return diff.State{}, nil
	}
	return s, vfs.At(path, err)
}
