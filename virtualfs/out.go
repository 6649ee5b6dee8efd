package virtualfs

import (
	"context"

	"capd/operator"
	"capd/vfs"
)

// Snapshot implements [operator.VirtualFs].
func (fs *FS) Snapshot(ctx context.Context, path, store, pin string, progress operator.Progress) (operator.Snapshot, error) {
	if fs.o.Snapshot == nil {
		return operator.Snapshot{}, vfs.At(path, vfs.Errorf(vfs.Unsupported, "this host makes no snapshots"))
	}
	d, err := fs.Dir(ctx, path)
	if err != nil {
		return operator.Snapshot{}, err
	}
	defer d.Close()
	s, err := fs.o.Snapshot(ctx, d, path, store, pin, progress)
	return s, vfs.At(path, err)
}

// Materialize implements [operator.VirtualFs].
func (fs *FS) Materialize(ctx context.Context, path string, b operator.Bounds, progress operator.Progress) (operator.Tree, error) {
	if fs.o.Materialize == nil {
		return nil, vfs.At(path, vfs.Errorf(vfs.Unsupported, "this host materializes nothing"))
	}
	d, err := fs.Dir(ctx, path)
	if err != nil {
		return nil, err
	}
	t, err := fs.o.Materialize(ctx, d, fs.Target(path), b, progress)
	if err != nil {
		d.Close()
		return nil, vfs.At(path, err)
	}
	return &openTree{t, d, fs, path}, nil
}

// Dir opens the directory at path with the host's own rights.
func (fs *FS) Dir(ctx context.Context, path string) (vfs.Dir, error) {
	if path == "" {
		return vfs.Dup(fs.top)
	}
	d, err := vfs.WalkDir(ctx, fs.top, path)
	return d, vfs.At(path, err)
}

// openTree is a tree that keeps its source open until it is closed.
type openTree struct {
	operator.Tree
	from vfs.Dir
	fs   *FS
	path string // of from
}

func (t *openTree) Close() error {
	err := t.Tree.Close()
	t.from.Close()
	return err
}
