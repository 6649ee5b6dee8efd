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
)
