package copier

import (
	"context"
	"slices"
	"strings"
	"sync"

	"capd/vfs"
)

// node is one node that is copied, with everything in it.
type node struct {
	name    string // at the source
	kind    vfs.Kind
	version vfs.Version // of a file, once it was read
	target  string      // of a link, likewise
	size    int64       // of a file, if it is pinned, in bytes
	exec    bool        // likewise
	pinned  bool        // only this is copied; see Plan.Pin
	placed  bool        // it was made, or may have been made, by this copy

	mu    sync.Mutex
	holds []*node // in byte order of names, once all are there
}

func (n *node) add(name string, kind vfs.Kind) *node {
	held := &node{name: name, kind: kind}
	n.mu.Lock()
	defer n.mu.Unlock()
	n.holds = append(n.holds, held)
	return held
}

func (n *node) sort() {
	slices.SortFunc(n.holds, func(a, b *node) int { return strings.Compare(a.name, b.name) })
}

// find returns what n holds under a name, or nil.
func (n *node) find(name string) *node {
	i, ok := slices.BinarySearchFunc(n.holds, name, func(held *node, name string) int { return strings.Compare(held.name, name) })
	if !ok {
		return nil
	}
	return n.holds[i]
}

// as returns n if it is of that kind. n is nil for what was not planned.
func (n *node) as(kind vfs.Kind) (*node, error) {
	if n == nil || n.kind != kind {
		return nil, errAltered
	}
	return n, nil
}

// made notes how the making of n ended, and returns err. Unless the error says
// otherwise, n may have been made without an answer.
func (n *node) made(err error) error {
	code := vfs.CodeOf(err)
	n.placed = err == nil || !code.Policy() && code != vfs.Exists && (code != vfs.Conflict || err == errAltered)
	return err
}

// same returns nil when name in d is what was copied.
func (n *node) same(ctx context.Context, d vfs.Dir, name string) error {
	return n.compare(ctx, d, name, true)
}

// compare is same. Unless contents is set, it compares names and kinds alone.
func (n *node) compare(ctx context.Context, d vfs.Dir, name string, contents bool) error {
	if !contents && n.kind != vfs.DirKind {
		return nil // the directory that lists it says so
	}
	is, err := d.Lookup(ctx, name)
	if vfs.CodeOf(err) == vfs.NotFound {
		return errAltered
	}
	if err != nil {
		return err
	}
	defer is.Close()
	if vfs.KindOf(is) != n.kind {
		return errAltered
	}
	same := true
	switch is := is.(type) {
	case vfs.File:
		var v vfs.Version
		v, err = vfs.VersionOf(ctx, is)
		same = v == n.version
	case vfs.Link:
		var target string
		target, err = is.Target(ctx)
		same = target == n.target
	case vfs.Dir:
		return n.compareEntries(ctx, is, contents)
	}
	if err == nil && !same {
		err = errAltered
	}
	return err
}

func (n *node) compareEntries(ctx context.Context, d vfs.Dir, contents bool) error {
	next := 0
	for e, err := range d.List(ctx) {
		if err != nil {
			return err
		}
		if next == len(n.holds) || n.holds[next].name != e.Name || n.holds[next].kind != e.Kind {
			return errAltered
		}
		next++
	}
	if next < len(n.holds) {
		return errAltered
	}
	for _, held := range n.holds {
		if err := held.compare(ctx, d, held.name, contents); err != nil {
			return err
		}
	}
	return nil
}

// remove removes what was copied from d, where it is called name.
func (n *node) remove(ctx context.Context, d vfs.Dir, name string) error {
	switch n.kind {
	case vfs.FileKind:
		return d.Remove(ctx, name, vfs.If{Is: n.version})
	case vfs.LinkKind:
		if err := n.same(ctx, d, name); err != nil {
			return err
		}
	case vfs.DirKind:
		sub, err := vfs.LookupAs[vfs.Dir](ctx, d, name, errAltered)
		if err != nil {
			return err
		}
		defer sub.Close()
		for _, held := range slices.Backward(n.holds) {
			if err := held.remove(ctx, sub, held.name); err != nil {
				return err
			}
		}
	}
	return d.Remove(ctx, name, vfs.If{NoFile: true})
}

// undo removes from d, where it is called name, what this copy made, as far as nobody
// changed it.
func (n *node) undo(ctx context.Context, d vfs.Dir, name string) {
	switch {
	case !n.placed:
	case n.kind == vfs.FileKind:
		if !n.version.IsZero() {
			_ = d.Remove(ctx, name, vfs.If{Is: n.version})
		}
	case n.kind == vfs.LinkKind:
		if n.same(ctx, d, name) == nil {
			_ = d.Remove(ctx, name, vfs.If{NoFile: true})
		}
	default:
		sub, err := vfs.LookupAs[vfs.Dir](ctx, d, name, errAltered)
		if err != nil {
			return
		}
		for _, held := range slices.Backward(n.holds) {
			held.undo(ctx, sub, held.name)
		}
		sub.Close()
		_ = d.Remove(ctx, name, vfs.If{NoFile: true})
	}
}
