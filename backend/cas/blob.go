package cas

import (
	"context"
	"crypto/sha256"
	"errors"
	"io"
	"io/fs"
	"os"
	"sync"
	"time"

	"capd/vfs"
)

// verification notes that a file, as it was then, has the content that its name says.
type verification struct {
	digest Digest
	id     identity
}

// Open implements [Blobs]. It keeps one descriptor open until the content is closed. A
// verified blob is not read again unless its file changes.
func (s *Store) Open(ctx context.Context, d Digest) (vfs.Content, error) {
	switch {
	case ctx.Err() != nil:
		return nil, ctx.Err()
	case d.Size < 0:
		return nil, errUnsized
	case d == Empty:
		return vfs.NewContent(ctx, blob{}, 0), nil
	case s.contents.Add(1) > s.maxContents:
		s.contents.Add(-1)
		return nil, vfs.Errorf(vfs.Busy, "too many contents are held open; close one or try again")
	}
	f, err := s.open(ctx, d)
	if err != nil {
		s.contents.Add(-1)
		return nil, err
	}
	return vfs.NewContent(ctx, blob{s, f}, d.Size), nil
}

// blob is an open blob, which counts as a content.
type blob struct {
	s *Store
	f *os.File // nil for the empty blob
}

func (b blob) ReadAt(p []byte, off int64) (int, error) {
	if b.f == nil {
		return 0, io.EOF
	}
	n, err := b.f.ReadAt(p, off)
	if err == nil || err == io.EOF {
		return n, err
	}
	return n, explain(err)
}

func (b blob) Close() error {
	if b.f != nil {
		b.f.Close()
		b.s.contents.Add(-1)
	}
	return nil
}

var errUnsized = vfs.Errorf(vfs.Invalid, "a digest needs its size here; resolve it first")

// open opens d's file and verifies it.
func (s *Store) open(ctx context.Context, d Digest) (*os.File, error) {
	f, err := os.Open(s.blob(d))
	if errors.Is(err, fs.ErrNotExist) {
		if _, err := os.Lstat(s.damaged(d)); err == nil {
			return nil, errDamaged
		}
		return nil, errNoBlob
	}
	if err != nil {
		return nil, explain(err)
	}
	if err := s.verify(ctx, f, d); err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}

func (s *Store) verify(ctx context.Context, f *os.File, d Digest) error {
	id, known := identify(f)
	if known {
		if _, ok := s.verified.Get(verification{d, id}, nil); ok {
			return nil
		}
	}
	fi, err := f.Stat()
	if err == nil && !fi.Mode().IsRegular() {
		err = errDamaged
	}
	if err != nil {
		return explain(err)
	}
	have, err := hash(ctx, f)
	switch {
	case err != nil:
		return explain(err)
	case have.Hash != d.Hash:
		soon, cancel := context.WithTimeout(ctx, 100*time.Millisecond)
		defer cancel()
		_ = s.quarantine(soon, fi, d) // if this fails, the next reader does it
		return errDamaged
	case have.Size != d.Size:
		return vfs.Errorf(vfs.Corrupt, "a stored content has the hash of this digest but another size")
	}
	if now, ok := identify(f); known && ok && now == id {
		s.verified.Add(verification{d, id}, struct{}{}, 1)
	}
	return nil
}

var errDamaged = vfs.Errorf(vfs.Corrupt, "the stored content does not match its digest; put it again")

// pieces are buffers to read and hash files with.
var pieces = sync.Pool{New: func() any { return new([256 << 10]byte) }}

// hash reads all of r.
func hash(ctx context.Context, r io.ReaderAt) (Digest, error) {
	piece := pieces.Get().(*[256 << 10]byte)
	defer pieces.Put(piece)
	var d Digest
	h := sha256.New()
	for {
		if err := ctx.Err(); err != nil {
			return Digest{}, err
		}
		n, err := r.ReadAt(piece[:], d.Size)
		h.Write(piece[:n])
		d.Size += int64(n)
		if err == io.EOF {
			h.Sum(d.Hash[:0])
			return d, nil
		}
		if err != nil {
			return Digest{}, err
		}
	}
}

func (s *Store) damaged(d Digest) string { return s.path(damagedDir, d.String()) }

// quarantine moves the file bad, which has d's name and other content, out of the way
// of the next upload, unless somebody did so before.
func (s *Store) quarantine(ctx context.Context, bad fs.FileInfo, d Digest) error {
	leave, err := s.enter(ctx, true)
	if err != nil {
		return err
	}
	defer leave()
	there, err := s.named(d)
	if err != nil || there == nil || !os.SameFile(there, bad) {
		return err
	}
	if err := os.Rename(s.blob(d), s.damaged(d)); err != nil {
		return err
	}
	return touch(s.damaged(d)) // it stays there for a while from now on
}
