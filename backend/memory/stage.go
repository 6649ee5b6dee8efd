package memory

import (
	"context"
	"crypto/sha256"
	"errors"
	"io"
	"slices"

	"capd/meter"
	"capd/vfs"
)

// foresee returns the error that a change would have now, without making it.
func (s *Store) foresee(ctx context.Context, check func(tries int) (step, error)) error {
	_, _, err := s.plan(ctx, 0, s.fitting(ctx, check))
	return err
}

// fitting is check for a change that also has to fit in.
func (s *Store) fitting(ctx context.Context, check func(tries int) (step, error)) func(tries int) (step, error) {
	return func(tries int) (step, error) {
		st, err := check(tries)
		if err == nil {
			err = s.room(ctx, st)
		}
		return st, err
	}
}

// plan calls check until all versions are known that it asks for. It returns the step, and
// the number of tries.
func (s *Store) plan(ctx context.Context, tries int, check func(tries int) (step, error)) (step, int, error) {
	for ; ; tries++ {
		if err := ctx.Err(); err != nil {
			return step{}, tries, err
		}
		s.mu.RLock()
		st, err := check(tries)
		s.mu.RUnlock()
		u, ok := errors.AsType[*unknownVersion](err)
		if !ok {
			return st, tries, err
		}
		if _, err := u.blob.sum(ctx); err != nil {
			return step{}, tries, err
		}
	}
}

// staging is content being read for the tree. It counts as staged until release.
type staging struct {
	store    *Store
	who      *meter.Meter // the meter it counts in
	reserved int64
}

func (st *staging) release() {
	st.store.mu.Lock()
	defer st.store.mu.Unlock()
	st.store.held.unstage(st.who, st.reserved)
	st.reserved = 0
}

// read reads all of r into a blob. old returns, under Store.mu, the size of the content
// that the blob will replace. It answers quota when the tree could not hold the blob,
// and busy when too much is staged already. It returns errors of r unchanged.
func (st *staging) read(ctx context.Context, r io.Reader, old func() int64) (*blob, error) {
	b := &blob{}
	h := sha256.New()
	buf := make([]byte, chunkSize)
	for {
		n, end := vfs.ReadFull(ctx, r, buf)
		if end != nil && end != io.EOF {
			return nil, end
		}
		if err := st.reserve(int64(n), old); err != nil {
			return nil, err
		}
		if n > 0 {
			h.Write(buf[:n])
			b.chunks = append(b.chunks, chunk{data: slices.Clone(buf[:n]), owner: b})
			b.size += int64(n)
		}
		if end == io.EOF {
			v := vfs.Version(h.Sum(nil))
			b.version.Store(&v)
			return b, nil
		}
	}
}

// reserve reserves n more bytes.
func (st *staging) reserve(n int64, old func() int64) error {
	s := st.store
	s.mu.Lock()
	defer s.mu.Unlock()
	switch grows := st.reserved + n - old(); {
	case grows > 0 && grows > s.limits.Bytes-s.used.Bytes:
		return s.full()
	case n > 0 && !s.held.stage(st.who, n):
		return errStaged
	}
	st.reserved += n
	return nil
}

// stagedBlob is a blob that all is staged in. Its version is known.
type stagedBlob struct{ *blob }

var _ vfs.StagedContent = stagedBlob{}

// Version implements vfs.StagedContent.
func (b stagedBlob) Version() vfs.Version { return *b.version.Load() }

// Open implements vfs.StagedContent.
func (b stagedBlob) Open(ctx context.Context) (vfs.Content, error) {
	return vfs.NewContent(ctx, b, b.size), nil
}

// Close implements io.Closer.
func (b stagedBlob) Close() error { return nil }

// Sync implements vfs.StagedContent. It does nothing: memory does not survive a power cut.
func (b stagedBlob) Sync(context.Context) error { return nil }
