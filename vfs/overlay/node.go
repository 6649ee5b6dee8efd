package overlay

import (
	"slices"
	"strings"
	"sync/atomic"

	"capd/vfs"
	"capd/vfs/batch"
)

// gone is the kind of a node that hides what the lower tree has at its place.
const gone = vfs.Other

// node is what the overlay knows of a place: a change, or a directory that leads to
// one or that somebody has open. A place without a node reads through. All of it is
// guarded by Overlay.mu, but for refs.
type node struct {
	kind   vfs.Kind
	parent *node // nil for the root, and for what is in the tree no more
	name   string

	// below says that the node reads through to the lower tree, at origin. A
	// directory then shows what is there under every name that has no node.
	below  bool
	origin string

	modified int64 // of a directory or link, milliseconds since the Unix epoch; a lower directory's own may be later
	exec     bool  // of a file with content
	content  *content
	target   string // of a link, unless it is below

	recorded bool   // it counts in Overlay.recorded
	edits    uint64 // how often what a directory holds was edited

	children map[string]*node
	standing int          // how many of children stand, and are not only open
	stood    bool         // it counts as one of parent's that do; see stand
	refs     atomic.Int64 // references that are open; none is added without mu
}

// base is what the lower tree had at a path when the overlay first did other than
// read through.
type base struct {
	moved bool // it reads through elsewhere, whatever it is
	state batch.State
}

// implied is the lower path that the name reads through to when it has no node.
func (n *node) implied(name string) (path string, ok bool) {
	return vfs.Join(n.origin, name), n.below
}

// through reports a directory that is where it is in the lower tree.
func (n *node) through() bool {
	if n.parent == nil || n.kind != vfs.DirKind || !n.below {
		return false
	}
	path, ok := n.parent.implied(n.name)
	return ok && path == n.origin
}

// clean reports a node without which the tree would be the same.
func (n *node) clean() bool { return n.through() && n.modified == 0 && len(n.children) == 0 }

// holds reports that n is a directory whatever the lower tree has there.
func (n *node) holds() bool {
	if n.kind != vfs.DirKind {
		return false
	}
	return n.parent == nil || !n.through() || n.modified != 0 || n.standing > 0
}

// stands reports that n is there whatever the lower tree has there.
func (n *node) stands() bool { return !n.through() || n.holds() }

// stand has the directories above count whether n stands. It is called when n has changed: to look at all that is in a
// directory, whenever one asks whether it holds anything, would take long where much is.
func (n *node) stand() {
	for ; n.parent != nil && n.stands() != n.stood; n = n.parent {
		if n.stood = !n.stood; n.stood {
			n.parent.standing++
		} else {
			n.parent.standing--
		}
	}
}

// standAll is stand for n and all that is in it.
func (n *node) standAll() {
	for _, c := range n.children {
		c.standAll()
	}
	n.stand()
}

// path is n's place in the overlay; n is in the tree.
func (n *node) path() string {
	var names []string
	for ; n.parent != nil; n = n.parent {
		names = append(names, n.name)
	}
	slices.Reverse(names)
	return strings.Join(names, "/")
}

// put makes child the node called name; one already there is taken out.
func (n *node) put(name string, child *node) (old *node) {
	old = n.take(name)
	if n.children == nil {
		n.children = map[string]*node{}
	}
	n.children[name] = child
	child.parent, child.name = n, name
	child.stand()
	return old
}

// take takes the node called name out of n.
func (n *node) take(name string) *node {
	old := n.children[name]
	if old != nil {
		if old.stood {
			old.stood = false
			n.standing--
			n.stand()
		}
		old.parent = nil
		delete(n.children, name)
	}
	return old
}

// child returns the node called name, made where the name reads through.
func (n *node) child(name string) *node {
	c := n.children[name]
	if c == nil {
		path, ok := n.implied(name)
		c = &node{kind: vfs.DirKind, below: ok, origin: path, children: map[string]*node{}}
		n.put(name, c)
	}
	return c
}

// isWithin reports whether n is d or lies below it.
func (n *node) isWithin(d *node) bool {
	for ; n != nil; n = n.parent {
		if n == d {
			return true
		}
	}
	return false
}

// prune takes n out of the tree if nothing is lost by it, and what led to it.
func (n *node) prune() {
	for n.parent != nil && n.refs.Load() == 0 && n.clean() {
		parent := n.parent
		parent.take(n.name)
		n = parent
	}
}

// place is where a directory was opened: which node it was, and by which names it was
// reached. It never changes.
type place struct {
	parent *place // nil at the root
	name   string
	node   *node
}

// directory returns the directory at p, or stale when it is there no more. Overlay.mu
// is held.
func (p *place) directory() (*node, error) {
	for q := p; q.parent != nil; q = q.parent {
		if q.node.parent != q.parent.node || q.node.name != q.name {
			return nil, vfs.Stale
		}
	}
	return p.node, nil
}
