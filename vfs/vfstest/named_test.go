package vfstest_test

import (
	"context"

	"capd/vfs"
)

// named is a tree whose directories say that their path is their identity.
type named struct {
	vfs.Dir
	path string
}

func (d named) Identity(ctx context.Context) (string, error) {
	_, err := d.Dir.Stat(ctx)
	return "at " + d.path, err
}

func (d named) Lookup(ctx context.Context, name string) (vfs.Node, error) {
	n, err := d.Dir.Lookup(ctx, name)
	if below, ok := n.(vfs.Dir); ok {
		return named{below, vfs.Join(d.path, name)}, err
	}
	return n, err
}

func (d named) Rename(ctx context.Context, name string, dst vfs.Dir, newName string, from, to vfs.If) error {
	return d.Dir.Rename(ctx, name, dst.(named).Dir, newName, from, to)
}
