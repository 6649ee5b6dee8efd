package cas

import (
	"context"
	"io"

	"capd/vfs"
)

type file struct {
	ref
	vfs.ImmutableFile
	digest Digest
	exec   bool
}

var (
	_ vfs.File      = (*file)(nil)
	_ vfs.Opener    = (*file)(nil)
	_ vfs.Versioner = (*file)(nil)
	_ vfs.Immutable = (*file)(nil)
)

// Stat implements vfs.Node.
func (f *file) Stat(ctx context.Context) (vfs.Info, error) {
	if err := f.check(ctx); err != nil {
		return vfs.Info{}, err
	}
	return vfs.Info{Kind: vfs.FileKind, Size: f.digest.Size, Exec: f.exec}, nil
}

// Open implements vfs.Opener.
func (f *file) Open(ctx context.Context) (vfs.Content, error) {
	if err := f.check(ctx); err != nil {
		return nil, err
	}
	c, err := f.tree.blobs.Open(ctx, f.digest)
	if err != nil {
		return nil, conceal(err)
	}
	return c, nil
}

// Version implements vfs.Versioner. The digest is the version.
func (f *file) Version(ctx context.Context) (vfs.Version, error) {
	return vfs.Version(f.digest.Hash), f.check(ctx)
}

// ReadAt implements vfs.File.
func (f *file) ReadAt(ctx context.Context, p []byte, off int64) (int, error) {
	if err := f.check(ctx); err != nil {
		return 0, err
	}
	switch {
	case off < 0:
		return 0, vfs.ErrOffset
	case off >= f.digest.Size:
		return 0, io.EOF
	case vfs.IsTrying(ctx):
		return 0, vfs.ErrWouldBlock
	}
	c, err := f.Open(ctx)
	if err != nil {
		return 0, err
	}
	defer c.Close()
	return c.ReadAt(p, off)
}

// Sync implements vfs.File. A tree was durable before it had a digest.
func (f *file) Sync(ctx context.Context) error { return f.check(ctx) }

type link struct {
	ref
	vfs.ImmutableNode
	target string
}

var _ vfs.Link = (*link)(nil)

// Stat implements vfs.Node.
func (l *link) Stat(ctx context.Context) (vfs.Info, error) {
	if err := l.check(ctx); err != nil {
		return vfs.Info{}, err
	}
	return vfs.Info{Kind: vfs.LinkKind}, nil
}

// Target implements vfs.Link.
func (l *link) Target(ctx context.Context) (string, error) {
	if err := l.check(ctx); err != nil {
		return "", err
	}
	return l.target, nil
}
