package vfs

import (
	"context"
	"io"
)

// Replacer is a File whose whole content can be replaced at its place, as [Dir].Replace
// does.
type Replacer interface {
	Replace(ctx context.Context, r io.Reader, c If) (Version, error)
}

// ReplaceFile makes r's bytes the whole content of f, atomically. It answers
// unsupported for a file that is not a [Replacer]. Every file behind a membrane is one.
func ReplaceFile(ctx context.Context, f File, r io.Reader, c If) (Version, error) {
	if rf, ok := f.(Replacer); ok {
		return rf.Replace(ctx, r, c)
	}
	return Version{}, Errorf(Unsupported, "this file cannot replace itself; put the new content through its directory")
}
