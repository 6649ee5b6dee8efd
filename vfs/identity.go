package vfs

import "context"

// Identifier is a Dir that can tell which directory it is, so that a host recognizes it
// after a restart.
type Identifier interface {
	// Identity returns a text of printable ASCII, at most 128 bytes. Another directory at
	// the same place, even one that is made when this one was removed, has another text.
	// The text stays the same when the directory is renamed, and when the store is opened
	// again. It says nothing about the content. It answers stale, and unsupported for a
	// directory that the store cannot tell from others.
	Identity(ctx context.Context) (string, error)
}

// Identity returns the identity of d; see [Identifier]. It answers unsupported when d is
// not one. It is for hosts: no method of a guest's interface leads here.
func Identity(ctx context.Context, d Dir) (string, error) {
	if i, ok := d.(Identifier); ok {
		return i.Identity(ctx)
	}
	return "", errNoIdentity
}

var errNoIdentity = Errorf(Unsupported, "this store cannot tell its directories from others after a restart")
