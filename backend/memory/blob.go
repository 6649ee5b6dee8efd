package memory

import (
	"context"
	"io"
	"slices"
	"sync/atomic"

	"capd/vfs"
)

// chunkSize is the unit, in bytes, in which a file is stored, staged and copied on
// write.
const chunkSize = 64 << 10

// chunk is a run of at most chunkSize bytes. Bytes beyond the end of data are zeros.
// Only the blob that owns a chunk writes to it.
type chunk struct {
	data  []byte
	owner *blob
}

// blob is the content of a file. It is written in place under Store.mu until it is
// frozen. After that it never changes, and is read without a lock.
type blob struct {
	size    int64
	chunks  []chunk
	frozen  atomic.Bool
	version atomic.Pointer[vfs.Version] // nil if not known

	readers  []*reader // those that have it open; under Store.mu
	detached bool      // no longer in a tree, but still open; under Store.mu
}

// Size implements vfs.Sized.
func (b *blob) Size() int64 { return b.size }

// ReadAt implements io.ReaderAt.
func (b *blob) ReadAt(p []byte, off int64) (int, error) {
	if off >= b.size {
		return 0, io.EOF
	}
	n := int(min(int64(len(p)), b.size-off))
	for done := 0; done < n; {
		i, from := int((off+int64(done))/chunkSize), int((off+int64(done))%chunkSize)
		part := p[done:min(n, done+chunkSize-from)]
		filled := 0
		if i < len(b.chunks) && from < len(b.chunks[i].data) {
			filled = copy(part, b.chunks[i].data[from:])
		}
		clear(part[filled:])
		done += len(part)
	}
	if n < len(p) {
		return n, io.EOF
	}
	return n, nil
}

// writeAt writes p at off. b must not be frozen.
func (b *blob) writeAt(p []byte, off int64) {
	for done := 0; done < len(p); {
		i, from := int((off+int64(done))/chunkSize), int((off+int64(done))%chunkSize)
		part := p[done:min(len(p), done+chunkSize-from)]
		if i >= len(b.chunks) {
			b.chunks = append(b.chunks, make([]chunk, i+1-len(b.chunks))...)
		}
		b.writeChunk(&b.chunks[i], part, from)
		done += len(part)
	}
	b.size = max(b.size, off+int64(len(p)))
	b.version.Store(nil)
}

func (b *blob) writeChunk(c *chunk, p []byte, from int) {
	if c.owner != b {
		c.data, c.owner = slices.Clone(c.data), b
	}
	if have, need := len(c.data), from+len(p); have < need {
		c.data = slices.Grow(c.data, need-have)[:need]
		if have < from {
			clear(c.data[have:from])
		}
	}
	copy(c.data[from:], p)
}

// truncate makes b size bytes long. b must not be frozen.
func (b *blob) truncate(size int64) {
	if size < b.size {
		keep := int((size + chunkSize - 1) / chunkSize)
		if keep < len(b.chunks) {
			b.chunks = append([]chunk(nil), b.chunks[:keep]...) // release the rest of the old array
		}
		if rest := int(size % chunkSize); rest > 0 && keep == len(b.chunks) {
			last := &b.chunks[keep-1]
			if rest < len(last.data) {
				last.data, last.owner = append([]byte(nil), last.data[:rest]...), b
			}
		}
	}
	b.size = size
	b.version.Store(nil)
}

// fork returns a blob with b's content that may be written. It shares b's chunks until
// it writes to them. b must be frozen.
func (b *blob) fork() *blob {
	return &blob{size: b.size, chunks: slices.Clone(b.chunks)}
}

// sum returns b's version. Concurrent callers may each compute it. b must be frozen, or
// Store.mu held.
func (b *blob) sum(ctx context.Context) (vfs.Version, error) {
	if v := b.version.Load(); v != nil {
		return *v, nil
	}
	v, _, err := vfs.Hash(ctx, b)
	if err == nil {
		b.version.Store(&v)
	}
	return v, err
}
