package vfs

// Immutable is a node that may belong to a store that never changes. Every change
// through such a node is readOnly, whatever else is wrong with the call.
type Immutable interface {
	// Immutable reports that nothing can ever be changed through the node. The store
	// may still change in other ways.
	Immutable() bool
}

// IsImmutable reports whether n is [Immutable] and returns true from it.
func IsImmutable(n Node) bool {
	i, ok := n.(Immutable)
	return ok && i.Immutable()
}

// Immutable implements [Immutable]: by attenuation, or because the inner node is.
func (v *view) Immutable() bool { return v.mask&noWrite != 0 || IsImmutable(v.inner.node) }

// Immutable implements [Immutable].
func (d *nsDir) Immutable() bool {
	p, err := d.now()
	return err == nil && p.dir != nil && p.dir.Immutable()
}
