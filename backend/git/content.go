package git

import (
	"context"
	"crypto/sha256"
	"io"
	"strings"

	"github.com/go-git/go-git/v5/plumbing"

	"capd/hostfile"
	"capd/vfs"
	"capd/vfs/diff"
)

// Stage makes the blobs of changes in advance, so that [Store.Prepare] takes less time: it
// does not make a blob again if the content is still the same. Nothing refers to the blobs
// yet. Stage leaves out a content that was removed, or that changes meanwhile. It answers
// what Prepare would answer for the same options.
func (s *Store) Stage(ctx context.Context, o CommitOptions, changes []diff.Change) (err error) {
	defer func() { err = ambient(err) }()
	if _, _, _, err := s.check(ctx, o); err != nil {
		return err
	}
	b := newBuilder(s)
	for i := range changes {
		if changes[i].Is.Kind != vfs.FileKind || changes[i].From != "" {
			continue
		}
		_, err := b.blob(ctx, &changes[i])
		switch vfs.CodeOf(err) {
		case vfs.NotFound, vfs.NotDir, vfs.Stale, vfs.Busy: // it was changed since
		default:
			if err != nil {
				return vfs.At(changes[i].Path, err)
			}
		}
	}
	return nil
}

// blob makes the blob of a file or a link.
func (b *builder) blob(ctx context.Context, c *diff.Change) (plumbing.Hash, error) {
	if c.Is.Kind == vfs.LinkKind {
		return b.put(ctx, plumbing.BlobObject, int64(len(c.Is.Target)), strings.NewReader(c.Is.Target))
	}
	if id, ok := b.s.made.Get(c.Is.Version, nil); ok && !c.Is.Version.IsZero() {
		if ok, err := b.has(id); ok || err != nil {
			return id, err
		}
	}
	r, err := c.Content(ctx)
	if err != nil {
		return plumbing.Hash{}, err
	}
	defer r.Close()
	from, size, end, err := seekable(r)
	if err != nil {
		return plumbing.Hash{}, err
	}
	defer end.Close()
	h := sha256.New()
	id, err := identify(ctx, plumbing.BlobObject, size, from, h)
	if err == nil {
		err = b.keep(ctx, id, plumbing.BlobObject, size, from)
	}
	if err == nil {
		b.s.made.Add(vfs.Version(h.Sum(nil)), id, 1)
	}
	return id, err
}

// seekable returns the content that r reads, and its size in bytes. It copies a content
// of unknown size to a temporary file, which end closes and so removes.
func seekable(r io.Reader) (from io.ReaderAt, size int64, end io.Closer, err error) {
	if c, ok := r.(interface {
		io.ReaderAt
		Size() int64
	}); ok {
		return c, c.Size(), io.NopCloser(nil), nil
	}
	f, err := hostfile.NewTemp("git-*")
	if err != nil {
		return nil, 0, nil, hidden(err)
	}
	if size, err = io.Copy(f, r); err != nil {
		f.Close()
		return nil, 0, nil, hidden(err)
	}
	return f, size, f, nil
}
