package vfs

import "iter"

// What follows is for the host, which asks about views that guests hand in.

// Dup returns another reference to n, with the same rights and the same gate. It
// answers unsupported for a node behind no membrane, and for a link.
func Dup(n Node) (Node, error) {
	switch v := n.(type) {
	case *dirView:
		if err := v.check(0); err != nil {
			return nil, err
		}
		return v.derived(v.base, v.mask)
	case *fileView:
		if err := v.check(0); err != nil {
			return nil, err
		}
		return v.derived(v.base, v.mask)
	}
	return nil, Errorf(Unsupported, "only a directory or a file behind a membrane can be referred to again")
}

// Place is where a view stands, in its membrane's own terms, and its bounds. A
// guest never sees one.
type Place struct {
	Path     string // from the root that was guarded
	ReadOnly bool   // by attenuation; what gates say comes on top
}

// PlaceOf reports n's place, if n is behind a membrane.
func PlaceOf(n Node) (Place, bool) {
	switch v := n.(type) {
	case *dirView:
		return v.place(), true
	case *fileView:
		return v.place(), true
	}
	return Place{}, false
}

func (v *view) place() Place { return Place{Path: v.path, ReadOnly: v.mask&noWrite != 0} }

// bound is a node that a gate binds: every view.
type bound interface{ bind() binding }

var (
	_ bound = (*dirView)(nil)
	_ bound = (*fileView)(nil)
)

// Lineage yields the gates that n goes through, from its own upwards, each
// once. It yields nothing for a node behind no membrane.
func Lineage(n Node) iter.Seq[*Gate] {
	return func(yield func(*Gate) bool) {
		v, ok := n.(bound)
		if !ok {
			return
		}
		g := v.bind().gate
		seen := map[*Gate]bool{}
		queue := []*Gate{g}
		for len(queue) > 0 {
			g := queue[0]
			queue = queue[1:]
			if seen[g] {
				continue
			}
			seen[g] = true
			g.tree.mu.Lock()
			parents := g.parents
			g.tree.mu.Unlock()
			if !yield(g) {
				return
			}
			queue = append(queue, parents...)
		}
	}
}
