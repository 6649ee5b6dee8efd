package vfs

// What every store answers in the same words, beside the codes that say enough by
// themselves: nobody can tell by an answer which store gave it.
var (
	// ErrOffset is for an offset or a size that no file has.
	ErrOffset = Errorf(Invalid, "an offset or a size is below 0 or too large")

	// ErrIntoItself is for a directory that would move to where it, or what is in it, is.
	ErrIntoItself = Errorf(Invalid, "a directory cannot be moved into itself")

	// ErrNoVersion is for a condition on what is removed or moved and is no file.
	ErrNoVersion = Errorf(Invalid, "only a file has a version; drop the condition")

	// ErrReserved is for a new name that a store keeps for itself, or cannot keep.
	ErrReserved = Errorf(Invalid, "names like this are reserved; choose another")
)
