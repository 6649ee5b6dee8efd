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
func (o *Overlay) lowerAt(ctx context.Context, path string) (n vfs.Node, err error) {
	err = steady(ctx, func() error {
		n, err = walk(ctx, o.lower, path)
		return err
	})
	return n, err
}

// steady runs look, and runs it again when it answers stale: somebody may have moved
// what it had open. What is stale still is no answer to what is there.
func steady(ctx context.Context, look func() error) (err error) {
	for range 4 {
		if err = look(); vfs.CodeOf(err) != vfs.Stale || ctx.Err() != nil {
			break
		}
	}
	return err
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

// missing reports an error which says that nothing is there. That what was asked is
// stale does not say so.
func missing(err error) bool {
	code := vfs.CodeOf(err)
	return code == vfs.NotFound || code == vfs.NotDir
}

// replaced reports an error which says that something is there, and no directory.
func replaced(err error) bool {
	code := vfs.CodeOf(err)
	return code == vfs.NotRegular || code == vfs.CrossDevice
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

// drop gives up n, which went stale, so that at opens what is at path now.
func (w *window) drop(path string, n vfs.Node) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if n != nil && w.open[path] == n {
		delete(w.open, path)
		n.Close()
	}
}

// beneath runs do on what the lower tree has at path. A directory of the overlay that
// stands by itself is there whatever becomes of the one beneath: when that went stale,
// what took its place is asked.
func (r *ref) beneath(ctx context.Context, path string, stands bool, do func(vfs.Node) error) error {
	ask := func() error {
		n, err := r.window.at(ctx, r.o, path)
		if err == nil {
			err = do(n)
		}
		if path != "" && vfs.CodeOf(err) == vfs.Stale {
			r.window.drop(path, n)
		}
		return err
	}
	if !stands {
		n, err := r.window.at(ctx, r.o, path)
		if err != nil {
			return err
		}
		return do(n)
	}
	return steady(ctx, ask)
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
	return stateAt(ctx, path, o.lowerAt)
}

// stateAt says what open finds at path, which may be nothing.
func stateAt(ctx context.Context, path string, open func(context.Context, string) (vfs.Node, error)) (s batch.State, err error) {
	err = steady(ctx, func() error {
		n, err := open(ctx, path)
		if err == nil {
			s, err = stateOf(ctx, n)
			n.Close()
		}
		return err
	})
	if missing(err) {
		return batch.State{}, nil
	}
	return s, vfs.At(path, err)
}
