package vfstest_test

import (
	"context"
	"io"
	"testing"

	"capd/vfs"
	"capd/vfs/vfstest"
)

// The switches of Store leave out what they say, and the rest holds.
func TestSwitches(t *testing.T) {
	t.Run("NoLinks", func(t *testing.T) {
		vfstest.Run(t, vfstest.Store{NoLinks: true, New: newTree})
	})
	t.Run("none of the host's abilities", func(t *testing.T) {
		vfstest.Run(t, vfstest.Store{New: func(t testing.TB, tree vfstest.Tree) vfs.Dir {
			return plainDir{newTree(t, tree)}
		}})
	})
	t.Run("Remote", func(t *testing.T) {
		vfstest.Run(t, vfstest.Store{Remote: true, New: func(t testing.TB, tree vfstest.Tree) vfs.Dir {
			return newTree(t, tree)
		}})
	})
	t.Run("Immutable", func(t *testing.T) {
		vfstest.Run(t, vfstest.Store{Immutable: true, New: func(t testing.TB, tree vfstest.Tree) vfs.Dir {
			return fixedDir{newTree(t, tree)}
		}})
	})
}

// A store without executable bits says so by being no vfs.Installer.
func TestNoExecutableBits(t *testing.T) {
	vfstest.Run(t, vfstest.Store{New: func(t testing.TB, tree vfstest.Tree) vfs.Dir {
		return plainDir{newTree(t, without(tree))}
	}})
	vfstest.Run(t, vfstest.Store{Immutable: true, New: func(t testing.TB, tree vfstest.Tree) vfs.Dir {
		return fixedDir{newTree(t, without(tree))}
	}})
}

// without is tree with no file that can be executed.
func without(tree vfstest.Tree) vfstest.Tree {
	less := vfstest.Tree{}
	for path, n := range tree {
		n.Exec = false
		less[path] = n
	}
	return less
}

// plainDir is a store with none of the abilities that are for hosts.
type plainDir struct{ vfs.Dir }

func (d plainDir) Lookup(ctx context.Context, name string) (vfs.Node, error) {
	n, err := d.Dir.Lookup(ctx, name)
	if sub, ok := n.(vfs.Dir); ok {
		return plainDir{sub}, err
	}
	return n, err
}

func (d plainDir) Mkdir(ctx context.Context, name string) (vfs.Dir, error) {
	made, err := d.Dir.Mkdir(ctx, name)
	if err != nil {
		return nil, err
	}
	return plainDir{made}, nil
}

func (d plainDir) Rename(ctx context.Context, name string, dst vfs.Dir, newName string, from, to vfs.If) error {
	if p, ok := dst.(plainDir); ok {
		dst = p.Dir
	}
	return d.Dir.Rename(ctx, name, dst, newName, from, to)
}

// fixedDir is a store that never changes.
type fixedDir struct{ vfs.Dir }

func (d fixedDir) Lookup(ctx context.Context, name string) (vfs.Node, error) {
	n, err := d.Dir.Lookup(ctx, name)
	switch n := n.(type) {
	case vfs.Dir:
		return fixedDir{n}, err
	case vfs.File:
		return fixedFile{n}, err
	}
	return n, err
}

func (fixedDir) Immutable() bool { return true }

func (fixedDir) Create(context.Context, string) (vfs.File, error) { return nil, vfs.ReadOnly }

func (fixedDir) Mkdir(context.Context, string) (vfs.Dir, error) { return nil, vfs.ReadOnly }

func (fixedDir) Replace(context.Context, string, io.Reader, vfs.If) (vfs.Version, error) {
	return vfs.Version{}, vfs.ReadOnly
}

func (fixedDir) Remove(context.Context, string, vfs.If) error { return vfs.ReadOnly }

func (fixedDir) Rename(context.Context, string, vfs.Dir, string, vfs.If, vfs.If) error {
	return vfs.ReadOnly
}

type fixedFile struct{ vfs.File }

func (fixedFile) Immutable() bool { return true }

func (f fixedFile) WriteAt(context.Context, []byte, int64, vfs.If) (int, error) {
	return 0, vfs.ReadOnly
}
func (f fixedFile) Truncate(context.Context, int64, vfs.If) error { return vfs.ReadOnly }
