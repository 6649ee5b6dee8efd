package git

import (
	"context"
	"errors"

	"github.com/go-git/go-git/v5/plumbing"

	"capd/backend/internal/held"
	"capd/backend/internal/recent"
	"capd/vfs"
)

// blobs opens blobs, and caches those used last.
type blobs struct {
	objects  *objects
	kept     *held.Cache[plumbing.Hash]
	versions *recent.Cache[plumbing.Hash, vfs.Version]
	sizes    *recent.Cache[plumbing.Hash, int64]
	onDisk   int64 // cache weight of a blob in a file; bounds how many are kept
}

const (
	maxInMemory  = 4 << 20 // size, in bytes, up to which a blob is read into memory
	keptOnDisk   = 8       // how many large blobs are cached
	keptVersions = 1 << 16
)

func newBlobs(o *objects, room int64) *blobs {
	return &blobs{
		objects:  o,
		kept:     held.NewCache[plumbing.Hash](room),
		versions: recent.New[plumbing.Hash, vfs.Version](keptVersions, nil),
		sizes:    recent.New[plumbing.Hash, int64](keptVersions, nil),
		onDisk:   room / keptOnDisk,
	}
}

// open returns a blob, which the caller closes. A small one is in memory, a large one in a
// temporary file.
func (s *blobs) open(ctx context.Context, id plumbing.Hash) (*held.Blob, error) {
	return s.kept.Open(ctx, id, func() (*held.Blob, int64, error) {
		data, err := s.objects.readAs(id, plumbing.BlobObject, maxInMemory)
		if errors.Is(err, errTooLarge) {
			return s.spool(ctx, id)
		} else if err != nil {
			return nil, 0, err
		}
		return held.InMemory(data), int64(len(data)) + 64, nil
	})
}

// spool writes a large blob to a file, so that it can be read at any offset.
func (s *blobs) spool(ctx context.Context, id plumbing.Hash) (b *held.Blob, weight int64, err error) {
	err = s.objects.again(func() (err error) {
		if b, err = held.Spooled(); err != nil {
			return hidden(err)
		}
		if err = s.objects.copy(ctx, b, id); err != nil {
			b.Close()
		}
		return err
	})
	return b, s.onDisk, err
}

// size returns a blob's size without reading it.
func (s *blobs) size(id plumbing.Hash) (int64, error) {
	if size, ok := s.sizes.Get(id, nil); ok {
		return size, nil
	}
	size, err := s.objects.head(id, plumbing.BlobObject)
	if err == nil {
		s.sizes.Add(id, size, 1)
	}
	return size, err
}

// version returns a blob's version, and reads the blob if the version is not known.
func (s *blobs) version(ctx context.Context, id plumbing.Hash) (vfs.Version, error) {
	if v, ok := s.versions.Get(id, nil); ok {
		return v, nil
	}
	b, err := s.open(ctx, id)
	if err != nil {
		return vfs.Version{}, err
	}
	c := vfs.NewContent(ctx, b, b.Size())
	defer c.Close()
	v, _, err := vfs.Hash(ctx, c)
	if err == nil {
		s.versions.Add(id, v, 1)
	}
	return v, err
}
