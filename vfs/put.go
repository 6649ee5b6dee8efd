package vfs

import (
	"context"
	"io"
)

// Put makes r's bytes the whole content of the file at path below d, as [Dir].Replace
// does. If path ends in a link, Put follows it to an existing file; a dangling link is
// notFound.
func Put(ctx context.Context, d Dir, path string, r io.Reader, c If) (Version, error) {
	dir, name, release, err := WalkParent(ctx, d, path)
	if err != nil {
		return Version{}, err
	}
	defer release()
	if n, err := dir.Lookup(ctx, name); err == nil {
		n.Close()
		if _, link := n.(Link); link {
			f, err := WalkFile(ctx, d, path)
			if err != nil {
				return Version{}, err
			}
			defer f.Close()
			return f.Replace(ctx, r, c)
		}
	}
	return dir.Replace(ctx, name, r, c)
}

// PutNoFollow is Put, but answers notRegular if path ends in a link.
func PutNoFollow(ctx context.Context, d Dir, path string, r io.Reader, c If) (Version, error) {
	dir, name, release, err := WalkParent(ctx, d, path)
	if err != nil {
		return Version{}, err
	}
	defer release()
	return dir.Replace(ctx, name, r, c)
}
