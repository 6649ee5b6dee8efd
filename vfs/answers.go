package vfs

// Errors that every store returns in the same words. So nobody can tell from an error
// which store it came from.
var (
	// ErrOffset is the error for an offset or a size that no file can have.
	ErrOffset = Errorf(Invalid, "an offset or a size is below 0 or too large")

	// ErrIntoItself is the error for a move of a directory into itself or into something
	// below it.
	ErrIntoItself = Errorf(Invalid, "a directory cannot be moved into itself")

	// ErrNoVersion is the error for a condition on a node that is not a file.
	ErrNoVersion = Errorf(Invalid, "only a file has a version; drop the condition")

	// ErrReserved is the error for a new name that the store keeps for its own use or
	// cannot store.
	ErrReserved = Errorf(Invalid, "names like this are reserved; choose another")

	// ErrClosed is the error for a call on a reference that was closed.
	ErrClosed = Errorf(Stale, "this capability was closed")

	// ErrNoTree is the error of a Dir composed of several trees for a name that no tree
	// could have. It tells [Walk] that a link leads out of its tree and is not just
	// dangling.
	ErrNoTree = Errorf(NotFound, "nothing has this name; list() shows what is here")

	// ErrNoLinks is the error for a link in a tree that refuses links.
	ErrNoLinks = Errorf(Denied, "links are refused in this part of the tree, whether or not they lead anywhere")

	// ErrTooLong and ErrTooDeep are the errors for a path beyond [MaxPath] and [MaxDepth].
	ErrTooLong = Errorf(Limit, "the path is longer than %d bytes; open a Dir on the way", MaxPath)
	ErrTooDeep = Errorf(Limit, "the path is deeper than %d names; open a Dir on the way", MaxDepth)
)
