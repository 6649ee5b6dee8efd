package batch

import (
	"context"

	"capd/vfs"
	"capd/vfs/diff"
)

// look returns what is at path. inDir reports whether path's parent is a directory.
func look(ctx context.Context, at *diff.Cursor, path string) (is diff.State, inDir bool, err error) {
	for range 2 {
		if is, inDir, err = lookOnce(ctx, at, path); vfs.CodeOf(err) != vfs.Stale {
			break
		}
		at.Close() // somebody moved what was open
	}
	return is, inDir, err
}

func lookOnce(ctx context.Context, at *diff.Cursor, path string) (is diff.State, inDir bool, err error) {
	parent, _ := diff.Split(path)
	switch _, err := at.Dir(ctx, parent); vfs.CodeOf(err) {
	case vfs.NotFound, vfs.NotDir, vfs.NotRegular:
		return diff.State{}, false, nil
	}
	n, err := at.Open(ctx, path)
	if err == nil {
		defer n.Close()
		is, err = diff.StateOf(ctx, n)
	}
	switch vfs.CodeOf(err) {
	case vfs.NotFound:
		return diff.State{}, true, nil
	case vfs.NotRegular, vfs.CrossDevice, vfs.TooLarge:
		return diff.State{Kind: diff.Foreign}, true, nil
	}
	return is, true, err
}
