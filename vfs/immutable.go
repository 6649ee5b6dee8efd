package vfs

// Immutable is a node of a store that may never change. Every change of one is
// readOnly, whatever else is wrong with it.
type Immutable interface {
	// Immutable reports that nothing can be changed through the node, for good. The
	// store may still change by other ways.
	Immutable() bool
}

// IsImmutable reports whether n is [Immutable] and says so.
func IsImmutable(n Node) bool {
	i, ok := n.(Immutable)
	return ok && i.Immutable()
}

// Immutable implements [Immutable]: by attenuation, or since the inner node is.
func (v *view) Immutable() bool { return v.mask&noWrite != 0 || IsImmutable(v.inner.node) }

// Immutable implements [Immutable].
func (d *nsDir) Immutable() bool {
	p, err := d.now()
	return err == nil && p.dir != nil && p.dir.Immutable()
}
