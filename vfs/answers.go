package vfs

// Errors that every store answers in the same words, so that nobody can tell from an
// error which store it came from.
var (
	// ErrOffset answers an offset or a size that no file can have.
	ErrOffset = Errorf(Invalid, "an offset or a size is below 0 or too large")

	// ErrIntoItself answers a move of a directory into itself or into something below
	// it.
	ErrIntoItself = Errorf(Invalid, "a directory cannot be moved into itself")

	// ErrNoVersion answers a condition on a node that is not a file.
	ErrNoVersion = Errorf(Invalid, "only a file has a version; drop the condition")

	// ErrReserved answers a new name that the store keeps for its own use or cannot
	// store.
	ErrReserved = Errorf(Invalid, "names like this are reserved; choose another")

	// ErrClosed answers a call on a reference that was closed.
	ErrClosed = Errorf(Stale, "this capability was closed")

	// ErrNoTree answers a name in a Dir composed of several trees where no tree could have
	// it. By it [Walk] can tell a link that leads out of its tree from a dangling one.
	ErrNoTree = Errorf(NotFound, "nothing has this name; list() shows what is here")

	// ErrNoLinks answers a link in a tree that refuses them.
	ErrNoLinks = Errorf(Denied, "links are refused in this part of the tree, whether or not they lead anywhere")

	// ErrTooLong and ErrTooDeep answer a path beyond [MaxPath] and [MaxDepth].
	ErrTooLong = Errorf(Limit, "the path is longer than %d bytes; open a Dir on the way", MaxPath)
	ErrTooDeep = Errorf(Limit, "the path is deeper than %d names; open a Dir on the way", MaxDepth)
)
