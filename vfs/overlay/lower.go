package overlay

import (
	"context"
	"strings"
	"sync"

	"capd/vfs"
	"capd/vfs/batch"
)

// lowerAt opens what the lower tree has at path, and follows no link. It answers
// notFound, too, where the way is no directory.
func (o *Overlay) lowerAt(ctx context.Context, path string) (vfs.Node, error) {
	return walk(ctx, o.lower, path)
}

// walk opens what is at path below d, which stays open.
func walk(ctx context.Context, d vfs.Dir, path string) (vfs.Node, error) {
	var at vfs.Node = d
	for name := range strings.SplitSeq(path, "/") {
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

// missing reports an error which says that nothing is there.
func missing(err error) bool {
	switch vfs.CodeOf(err) {
	case vfs.NotFound, vfs.NotDir, vfs.Stale:
		return true
	}
	return false
}

// window is what a reference has open of the lower tree.
type window struct {
	mu     sync.Mutex
	closed bool
	open   map[string]vfs.Node // by lower path
}

// keep keeps n, which is at path, open until the window is closed.
func (w *window) keep(path string, n vfs.Node) (vfs.Node, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.closed {
		n.Close()
		return nil, vfs.Stale
	}
	if other := w.open[path]; other != nil {
		n.Close()
		return other, nil
	}
	if w.open == nil {
		w.open = map[string]vfs.Node{}
	}
	w.open[path] = n
	return n, nil
}

// at returns what the lower tree has at path, opened now or before.
func (w *window) at(ctx context.Context, o *Overlay, path string) (vfs.Node, error) {
	w.mu.Lock()
	n := w.open[path]
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

// close reports whether it was this call that closed it.
func (w *window) close() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.closed {
		return false
	}
	w.closed = true
	for _, n := range w.open {
		n.Close()
	}
	w.open = nil
	return true
}

// stateOf says what n is. The version of a file too long to have one is none.
func stateOf(ctx context.Context, n vfs.Node) (batch.State, error) {
	s, err := batch.StateOf(ctx, n)
	if vfs.CodeOf(err) == vfs.TooLarge {
		err = nil
	}
	return s, err
}

// lowerState says what the lower tree has at path, which may be nothing.
func (o *Overlay) lowerState(ctx context.Context, path string) (batch.State, error) {
	n, err := o.lowerAt(ctx, path)
	if missing(err) {
		return batch.State{}, nil
	}
	if err != nil {
		return batch.State{}, vfs.At(path, err)
	}
	defer n.Close()
	s, err := stateOf(ctx, n)
	if missing(err) {
		return batch.State{}, nil
	}
	return s, vfs.At(path, err)
}
