package git

import (
	"context"
	"crypto/sha256"
	"errors"
	"io"
	"sync"
	"sync/atomic"

	"github.com/go-git/go-git/v5/plumbing"

	"capd/meter"
	"capd/vfs"
)

// blob is the content of a file in the repository. A small one is in memory, a large
// one in a temporary file.
type blob struct {
	data  []byte
	file  *temp // nil if it is in data
	size  int64
	users atomic.Int32
}

func (b *blob) ReadAt(p []byte, off int64) (int, error) {
	if b.file != nil {
		n, err := vfs.ReadAt(b.file, p, off)
		if err != nil && err != io.EOF {
			err = hidden(err)
		}
		return n, err
	}
	if off >= b.size {
		return 0, io.EOF
	}
	n := copy(p, b.data[off:])
	return n, endOf(n, len(p))
}

// endOf returns the error that io.ReaderAt requires for n bytes read out of asked.
func endOf(n, asked int) error {
	if n < asked {
		return io.EOF
	}
	return nil
}

func (b *blob) release() {
	if b.users.Add(-1) == 0 && b.file != nil {
		b.file.Close()
	}
}

// blobs opens blobs, and caches those used last.
type blobs struct {
	objects  *objects
	kept     *lru[plumbing.Hash, *blob]
	versions *lru[plumbing.Hash, vfs.Version]
	sizes    *lru[plumbing.Hash, int64]
	onDisk   int64 // cache weight of a blob in a file; bounds how many are kept

	mu       sync.Mutex
	spooling map[plumbing.Hash]chan struct{} // large blobs being written to a file; the channel is closed at the end
}

const (
	maxInMemory  = 4 << 20 // size, in bytes, up to which a blob is read into memory
	keptOnDisk   = 8       // how many large blobs are cached
	keptVersions = 1 << 16
)

func newBlobs(o *objects, room int64) *blobs {
	return &blobs{
		objects:  o,
		kept:     newLRU[plumbing.Hash](room, (*blob).release),
		versions: newLRU[plumbing.Hash, vfs.Version](keptVersions, nil),
		sizes:    newLRU[plumbing.Hash, int64](keptVersions, nil),
		onDisk:   room / keptOnDisk,
		spooling: map[plumbing.Hash]chan struct{}{},
	}
}

// open returns a blob, which the caller releases.
func (s *blobs) open(ctx context.Context, id plumbing.Hash) (*blob, error) {
	if b, ok := s.cached(id); ok {
		return b, nil
	}
	data, err := s.objects.readAs(id, plumbing.BlobObject, maxInMemory)
	if errors.Is(err, errTooLarge) {
		return s.spool(ctx, id)
	} else if err != nil {
		return nil, err
	}
	b := &blob{data: data, size: int64(len(data))}
	s.keep(id, b, b.size+64)
	return b, nil
}

func (s *blobs) cached(id plumbing.Hash) (*blob, bool) {
	return s.kept.get(id, func(b *blob) { b.users.Add(1) })
}

// keep starts the use of a new blob, and caches it if it fits.
func (s *blobs) keep(id plumbing.Hash, b *blob, weight int64) {
	b.users.Store(2)
	if !s.kept.put(id, b, weight) {
		b.release()
	}
}

// spool writes a large blob to a file, so that it can be read at any offset. A caller
// waits while another call writes the same blob, but not for other blobs.
func (s *blobs) spool(ctx context.Context, id plumbing.Hash) (*blob, error) {
	for {
		if b, ok := s.cached(id); ok {
			return b, nil
		}
		other, end := s.beginSpooling(id)
		if other == nil {
			defer end()
			return s.spoolNow(ctx, id)
		}
		select {
		case <-other:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// beginSpooling returns a channel that is closed when another call has written the
// blob, or else the function that ends this call's own writing.
func (s *blobs) beginSpooling(id plumbing.Hash) (other <-chan struct{}, end func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if other := s.spooling[id]; other != nil {
		return other, nil
	}
	mine := make(chan struct{})
	s.spooling[id] = mine
	return nil, func() {
		s.mu.Lock()
		delete(s.spooling, id)
		s.mu.Unlock()
		close(mine)
	}
}

// spoolNow is spool for a blob that no other call is writing.
func (s *blobs) spoolNow(ctx context.Context, id plumbing.Hash) (*blob, error) {
	if b, ok := s.cached(id); ok { // written meanwhile
		return b, nil
	}
	file, err := newTemp()
	if err != nil {
		return nil, err
	}
	b := &blob{file: file}
	err = s.objects.again(func() error {
		b.size = 0
		return s.objects.copy(ctx, writerFunc(func(p []byte) (int, error) {
			if err := meter.Yield(ctx); err != nil {
				return 0, err
			}
			n, err := file.WriteAt(p, b.size)
			b.size += int64(n)
			return n, err
		}), id)
	})
	if err != nil {
		file.Close()
		return nil, err
	}
	s.keep(id, b, s.onDisk)
	return b, nil
}

type writerFunc func(p []byte) (int, error)

func (f writerFunc) Write(p []byte) (int, error) { return f(p) }

// size returns a blob's size without reading it.
func (s *blobs) size(id plumbing.Hash) (int64, error) {
	if size, ok := s.sizes.get(id, nil); ok {
		return size, nil
	}
	size, err := s.objects.head(id, plumbing.BlobObject)
	if err == nil {
		s.sizes.put(id, size, 1)
	}
	return size, err
}

// known returns a blob's version if it was computed before.
func (s *blobs) known(id plumbing.Hash) (vfs.Version, bool) { return s.versions.get(id, nil) }

// version returns a blob's version, and reads the blob if the version is not known.
func (s *blobs) version(ctx context.Context, id plumbing.Hash) (vfs.Version, error) {
	if v, ok := s.known(id); ok {
		return v, nil
	}
	b, err := s.open(ctx, id)
	if err != nil {
		return vfs.Version{}, err
	}
	defer b.release()
	v, err := sum(ctx, b, b.size)
	if err == nil {
		s.versions.put(id, v, 1)
	}
	return v, err
}

// sum returns the version of a content.
func sum(ctx context.Context, r io.ReaderAt, size int64) (vfs.Version, error) {
	if err := vfs.CheckVersioned(size); err != nil {
		return vfs.Version{}, err
	}
	h := sha256.New()
	if err := copyAll(ctx, h, r, size); err != nil {
		return vfs.Version{}, err
	}
	return vfs.Version(h.Sum(nil)), nil
}

// copySize is how many bytes are copied at once.
const copySize = 64 << 10

// copyAll writes the size bytes of r to w. It stops when ctx ends. Now and then it lets
// other calls have ctx's turn.
func copyAll(ctx context.Context, w io.Writer, r io.ReaderAt, size int64) error {
	buf := make([]byte, min(size, copySize))
	for off := int64(0); off < size; {
		if err := meter.Yield(ctx); err != nil {
			return err
		}
		n, err := r.ReadAt(buf[:min(int64(len(buf)), size-off)], off)
		if n == 0 && err != nil {
			return err
		}
		if _, err := w.Write(buf[:n]); err != nil {
			return err
		}
		off += int64(n)
	}
	return nil
}
