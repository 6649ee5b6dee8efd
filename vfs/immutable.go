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
