package overlay

import (
	"slices"
	"strings"
	"sync/atomic"

	"capd/vfs"
	"capd/vfs/diff"
)

// gone is the kind of a node that hides what the lower tree has at its place.
const gone = vfs.Other

// node is what the overlay records of a place: a change, or a directory that leads to
// one or is open. A place without a node reads through. All fields but refs are guarded
// by Overlay.mu.
type node struct {
	kind   vfs.Kind
	parent *node // nil for the root, and once it has left the tree
	name   string

	// below says that the node reads through to origin in the lower tree. A directory
	// then shows the lower entry under every name without a node of its own.
	below  bool
	origin string

	modified int64 // of a directory or link, milliseconds since the Unix epoch; the lower directory may be newer
	exec     bool  // of a file with content
	content  *content
	target   string // of a link, unless below

	recorded bool   // it counts in Overlay.recorded
	edits    uint64 // how often a directory's entries were edited

	children map[string]*node
	reach    extent       // at least that of the longest paths below; see reaches
	standing int          // number of children that stand, not only open ones
	stood    bool         // it is counted in parent.standing; see stand
	refs     atomic.Int64 // open references; only added under mu
}

// base is what the lower tree had at a path when the overlay first stopped reading
// through there.
type base struct {
	moved bool // another path reads through to it, whatever it is
	state diff.State
}

// implied returns the lower path that name reads through to if it has no node.
func (n *node) implied(name string) (path string, ok bool) {
	return vfs.Join(n.origin, name), n.below
}

// through reports whether n is a directory that reads through to its own path in the
// lower tree.
func (n *node) through() bool {
	if n.parent == nil || n.kind != vfs.DirKind || !n.below {
		return false
	}
	path, ok := n.parent.implied(n.name)
	return ok && path == n.origin
}

// clean reports whether the tree would be the same without n.
func (n *node) clean() bool { return n.through() && n.modified == 0 && len(n.children) == 0 }

// holds reports whether n is a directory whatever the lower tree has there.
func (n *node) holds() bool {
	if n.kind != vfs.DirKind {
		return false
	}
	return n.parent == nil || !n.through() || n.modified != 0 || n.standing > 0
}

// stands reports whether n exists, whatever the lower tree has there.
func (n *node) stands() bool { return !n.through() || n.holds() }

// stand updates the counts of the directories above, after n was changed. Without the
// counts it would take long to find out whether a large directory is empty.
func (n *node) stand() {
	for ; n.parent != nil && n.stands() != n.stood; n = n.parent {
		if n.stood = !n.stood; n.stood {
			n.parent.standing++
		} else {
			n.parent.standing--
		}
	}
}

// standAll is stand for n and everything in it.
func (n *node) standAll() {
	for _, c := range n.children {
		c.standAll()
	}
	n.stand()
}

// path returns n's path in the overlay. n must be in the tree.
func (n *node) path() string {
	var names []string
	for ; n.parent != nil; n = n.parent {
		names = append(names, n.name)
	}
	slices.Reverse(names)
	return strings.Join(names, "/")
}

// put makes child the node called name. It returns the node that was there.
func (n *node) put(name string, child *node) (old *node) {
	old = n.take(name)
	if n.children == nil {
		n.children = map[string]*node{}
	}
	n.children[name] = child
	child.parent, child.name = n, name
	child.stand()
	for at := child; at.parent != nil; at = at.parent {
		e := at.reach.under(at.name)
		if e.within(at.parent.reach) {
			break
		}
		at.parent.reach = at.parent.reach.max(e)
	}
	return old
}

// extent is the length of paths, each with a slash before it. Of several paths it is
// that of the longest, which may be one path in names and another in bytes.
type extent struct{ names, bytes int }

// under returns e for paths that are in a directory called name.
func (e extent) under(name string) extent { return extent{e.names + 1, e.bytes + 1 + len(name)} }

func (e extent) max(f extent) extent { return extent{max(e.names, f.names), max(e.bytes, f.bytes)} }

func (e extent) within(f extent) bool { return e.names <= f.names && e.bytes <= f.bytes }

// reaches returns the extent of the paths to changes below n. If none was ever longer than
// most it does not look at them, and returns one within most.
func (n *node) reaches(most extent) extent {
	if n.reach.within(most) {
		return n.reach
	}
	return n.longest()
}

func (n *node) longest() (e extent) {
	for _, c := range n.children {
		if c.stands() {
			e = e.max(c.longest().under(c.name))
		}
	}
	return e
}

// extent returns the extent of n's path. n must be in the tree.
func (n *node) extent() (e extent) {
	for ; n.parent != nil; n = n.parent {
		e = e.under(n.name)
	}
	return e
}

// take removes the node called name from n and returns it.
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

// child returns the node called name. It makes one where the name reads through.
func (n *node) child(name string) *node {
	c := n.children[name]
	if c == nil {
		path, ok := n.implied(name)
		c = &node{kind: vfs.DirKind, below: ok, origin: path}
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

// prune removes n from the tree if it is not needed, and then the directories that led
// only to it.
func (n *node) prune() {
	for n.parent != nil && n.refs.Load() == 0 && n.clean() {
		parent := n.parent
		parent.take(n.name)
		n = parent
	}
}

// resting are the nodes that were closed last. They stay in the tree for a while, since
// what was looked at is often looked at again.
type resting struct {
	last [256]*node
	next int
}

// rest removes n, which nobody has open any more, from the tree later, if it is not
// needed then. Needs mu.
func (o *Overlay) rest(n *node) {
	r := &o.resting
	old := r.last[r.next]
	r.last[r.next] = n
	if r.next = (r.next + 1) % len(r.last); old != nil {
		old.prune()
	}
}

// place is where a directory was opened: its node, and the names by which it was
// reached. It never changes.
type place struct {
	parent *place // nil at the root
	name   string
	node   *node
}

// directory returns the directory at p, or stale if it is no longer there. Needs
// Overlay.mu.
func (p *place) directory() (*node, error) {
	for q := p; q.parent != nil; q = q.parent {
		if q.node.parent != q.parent.node || q.node.name != q.name {
			return nil, vfs.Stale
		}
	}
	return p.node, nil
}
