package operator

import "capd/vfs/diff"

// Acts has the operations of acts.
var Acts = []string{"apply", "undo", "revert", "commit", "sync"}

// Act is a change that an operator makes to a mount, for the record.
type Act struct {
	Op      string // one of Acts
	Path    string // of the mount; of a sync, where the copied tree came from
	Of      string // of an undo: the id of the apply
	Branch  string // of a commit: the full name of the branch that gets it
	Commit  string // its id, in hexadecimal
	Changes []diff.Change
}
