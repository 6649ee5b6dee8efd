package vfs

import "context"

// DirStager is a Dir in which a directory can be made out of sight, with everything in
// it, and then put in place at once.
type DirStager interface {
	StageDir(ctx context.Context, name string) (StagedDir, error)
}

// StagedDir is a directory that is made out of sight. No name leads to it until it is
// placed. It is changed like any other Dir, by one caller alone, and what is in it counts
// towards the limits of its store. Nodes that were opened through it are not used any
// more once it is placed.
type StagedDir interface {
	Dir

	// Place puts the directory in place, with everything in it. All of that is on disk
	// before, where there is a disk. It answers exists when
	// the name is taken meanwhile. It may be called again after an error.
	Place(ctx context.Context) error

	// Drop removes the directory with everything in it, unless it was placed. It returns
	// by how much the store has shrunk. It may be called after a revoke, and more than
	// once. A process that dies leaves the removal to the next that opens the store.
	Drop(ctx context.Context) Effect
}

// StageDir makes a directory out of sight that can be placed in d under name. It answers
// exists when the name is taken, and unsupported when d is not a [DirStager]. The caller
// calls Drop and Close when done.
func StageDir(ctx context.Context, d Dir, name string) (StagedDir, error) {
	if s, ok := d.(DirStager); ok {
		return s.StageDir(ctx, name)
	}
	return nil, Errorf(Unsupported, "this store cannot make a directory out of sight")
}
