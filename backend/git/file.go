package git

import (
	"context"

	"capd/backend/internal/held"
	"capd/vfs"
)

type file struct {
	vfs.ImmutableFile
	ref
}

var (
	_ vfs.File      = (*file)(nil)
	_ vfs.Opener    = (*file)(nil)
	_ vfs.Versioner = (*file)(nil)
)

// open returns the blob at f's place, which the caller releases.
func (f *file) open(ctx context.Context) (*held.Blob, error) {
	id, err := f.id(ctx)
	if err != nil {
		return nil, err
	}
	return f.in.store.blobs.open(ctx, id)
}

// ReadAt implements vfs.File.
func (f *file) ReadAt(ctx context.Context, p []byte, off int64) (int, error) {
	b, err := f.open(ctx)
	if err != nil {
		return 0, err
	}
	defer b.Close()
	return vfs.ReadAt(b, p, off)
}

// Sync implements vfs.File. There is nothing to sync.
func (f *file) Sync(ctx context.Context) error {
	_, err := f.Stat(ctx)
	return err
}

// Version implements vfs.Versioner. It computes the version once for each content.
func (f *file) Version(ctx context.Context) (vfs.Version, error) {
	id, err := f.id(ctx)
	if err != nil {
		return vfs.Version{}, err
	}
	return f.in.store.blobs.version(ctx, id)
}

// Open implements vfs.Opener. The content stays when the file gets another.
func (f *file) Open(ctx context.Context) (vfs.Content, error) {
	b, err := f.open(ctx)
	if err != nil {
		return nil, err
	}
	return vfs.NewContent(ctx, b, b.Size()), nil
}
