package overlay

import (
	"strings"

	"capd/vfs"
)

// count counts n, or counts it no more, after it was changed. mu is held.
func (o *Overlay) count(n *node) {
	is := n.parent != nil && !n.through()
	switch {
	case is && !n.recorded:
		o.recorded++
	case !is && n.recorded:
		o.recorded--
	}
	n.recorded = is
}

// countAll counts n and all in it. mu is held.
func (o *Overlay) countAll(n *node) {
	o.count(n)
	for _, c := range n.children {
		o.countAll(c)
	}
}

// leave counts n, which is in the tree no more, and adds what it frees to freed. n may be
// nil. mu is held.
func (o *Overlay) leave(n *node, freed []*content) []*content {
	if n != nil {
		o.discount(n)
	}
	return n.free(freed)
}

func (o *Overlay) discount(n *node) {
	if n.recorded {
		n.recorded = false
		o.recorded--
	}
	for _, c := range n.children {
		o.discount(c)
	}
}

// fits answers quota when edits, which are a guest's, would have the overlay keep account
// of more than its bound.
func (o *Overlay) fits(edits []edit) error {
	o.mu.RLock()
	defer o.mu.RUnlock()
	nodes, places := 0, 0
	left := map[string]bool{} // where a node was moved away
	for _, e := range edits {
		path := string(e.Path)
		has := !left[path] && o.has(path)
		switch _, known := o.bases[path]; {
		case e.Do == set && !has:
			nodes++
		case e.Do == drop && has:
			nodes--
		case e.Do == move:
			if left[path] = true; !has {
				nodes++
			}
		case e.Do == know && !known:
			places++
		case e.Do == forget && known:
			places--
		}
	}
	if nodes > 0 && o.recorded+nodes > o.bound || places > 0 && len(o.bases)+places > o.bound {
		return vfs.Errorf(vfs.Quota, "there are as many changes as are kept, %d; remove some of what you made, or have changes applied or reverted", o.bound)
	}
	return nil
}

// has reports whether the node at path is recorded. mu is held.
func (o *Overlay) has(path string) bool {
	n := o.root
	for name := range strings.SplitSeq(path, "/") {
		if n = n.children[name]; n == nil {
			return false
		}
	}
	return n.recorded
}
