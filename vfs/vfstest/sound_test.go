package vfstest_test

import (
	"context"
	"iter"
	"testing"

	"capd/vfs"
	"capd/vfs/vfstest"
)

// The switches of Store leave out what they say, and the rest of the suite runs.
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
			return vfs.NewImmutableDir(fixedDir{newTree(t, tree)})
		}})
	})
}

// A store without executable bits is not a vfs.Installer.
func TestNoExecutableBits(t *testing.T) {
	vfstest.Run(t, vfstest.Store{New: func(t testing.TB, tree vfstest.Tree) vfs.Dir {
		return plainDir{newTree(t, without(tree))}
	}})
	vfstest.Run(t, vfstest.Store{Immutable: true, New: func(t testing.TB, tree vfstest.Tree) vfs.Dir {
		return vfs.NewImmutableDir(fixedDir{newTree(t, without(tree))})
	}})
}

// without returns tree without executable files.
func without(tree vfstest.Tree) vfstest.Tree {
	less := vfstest.Tree{}
	for path, n := range tree {
		n.Exec = false
		less[path] = n
	}
	return less
}

// plainDir is a store with none of the abilities for hosts.
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

// fixedDir is a store that never changes, written as such stores are: it implements what
// differs, and vfs.NewImmutableDir and vfs.NewImmutableFile do the rest.
type fixedDir struct{ inner vfs.Dir }

func (d fixedDir) List(ctx context.Context) iter.Seq2[vfs.Entry, error] { return d.inner.List(ctx) }

func (d fixedDir) Lookup(ctx context.Context, name string) (vfs.Node, error) {
	n, err := d.inner.Lookup(ctx, name)
	switch n := n.(type) {
	case vfs.Dir:
		return vfs.NewImmutableDir(fixedDir{n}), err
	case vfs.File:
		info, err := n.Stat(ctx)
		return vfs.NewImmutableFile(info, func(ctx context.Context) (vfs.Content, error) { return vfs.Open(ctx, n) }), err
	}
	return n, err
}
