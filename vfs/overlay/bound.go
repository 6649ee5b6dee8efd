package overlay

import (
	"strings"

	"capd/vfs"
)

// count starts or stops counting n, after n was changed. Needs mu.
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

// leave uncounts n, which has left the tree with everything in it, and adds the contents
// that frees to freed. n may be nil. Needs mu.
func (o *Overlay) leave(n *node, freed []*content) []*content {
	n.each(func(n *node) {
		if n.recorded {
			n.recorded = false
			o.recorded--
		}
		if n.content != nil {
			freed = append(freed, n.content)
		}
	})
	return freed
}

// fits answers quota if edits of a guest would exceed the number of nodes that the
// overlay records.
func (o *Overlay) fits(edits []edit) error {
	o.mu.RLock()
	defer o.mu.RUnlock()
	nodes, places := 0, 0
	left := map[string]bool{} // places that a node was moved away from
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
		return vfs.Errorf(vfs.Quota, "at most %d changes are kept here; remove some of what you made, or have changes applied or reverted", o.bound)
	}
	return nil
}

// has reports whether the node at path is recorded. Needs mu.
func (o *Overlay) has(path string) bool {
	n := o.root
	for name := range strings.SplitSeq(path, "/") {
		if n = n.children[name]; n == nil {
			return false
		}
	}
	return n.recorded
}
