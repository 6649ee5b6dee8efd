package cas

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"sync"

	"capd/hostfile"
	"capd/vfs"
)

// upload is an upload into a local store. Its blobs are in a directory of its own,
// which is locked while its process lives. Add stores a blob of up to whole bytes
// without reading it twice, and does not write one that is stored.
type upload struct {
	s    *Store
	dir  string
	lock *os.File

	adding sync.RWMutex // shared by every Add in progress

	mu     sync.Mutex
	blobs  map[[sha256.Size]byte]string // what was added: its file, or "" if it was stored before
	files  uint64                       // number of files made in dir
	stored int64
	err    error // the first
	over   bool
}

// whole is the size, in bytes, up to which a blob is read into memory before anything
// is written.
const whole = 1 << 20

// uploadLock is the lock file in an upload's directory. Its time is when the upload
// began.
const uploadLock = "lock"

// Begin implements [Blobs].
func (s *Store) Begin(ctx context.Context) (Upload, error) {
	return s.begin(ctx)
}

func (s *Store) begin(ctx context.Context) (*upload, error) {
	for {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		u := &upload{s: s, dir: s.path(tmpDir, unique()), blobs: map[[sha256.Size]byte]string{}}
		if err := os.Mkdir(u.dir, 0o700); err != nil {
			return nil, explain(err)
		}
		ok, err := u.take()
		if err != nil {
			os.Remove(u.dir)
			return nil, explain(err)
		}
		if ok {
			return u, nil
		}
	}
}

// take locks the upload's directory. It reports false when a sweep removed the
// directory first.
func (u *upload) take() (bool, error) {
	lock, err := os.OpenFile(filepath.Join(u.dir, uploadLock), os.O_CREATE|os.O_RDWR, 0o600)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	ok, err := hostfile.TryLock(lock, true)
	if ok && !hostfile.IsAt(lock, lock.Name()) {
		ok = false
	}
	if !ok {
		lock.Close()
		return false, err
	}
	u.lock = lock
	return true, nil
}

// Add implements [Upload].
func (u *upload) Add(ctx context.Context, r *io.SectionReader) (d Digest, err error) {
	u.adding.RLock()
	defer u.adding.RUnlock()
	defer func() {
		if err != nil {
			err = explain(err)
			u.fail(err)
		}
	}()
	switch {
	case ctx.Err() != nil:
		return Digest{}, ctx.Err()
	case u.isOver():
		return Digest{}, errOver
	case r.Size() == 0:
		return Empty, nil
	case r.Size() <= whole:
		return u.addWhole(ctx, r)
	}
	return u.addStream(ctx, r)
}

func (u *upload) isOver() bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.over
}

// addWhole reads r into memory, and writes it if it is new.
func (u *upload) addWhole(ctx context.Context, r *io.SectionReader) (Digest, error) {
	buffer := buffers.Get().(*bytes.Buffer)
	defer buffers.Put(buffer)
	buffer.Reset()
	if err := readWhole(ctx, buffer, r); err != nil {
		return Digest{}, err
	}
	d := DigestOf(buffer.Bytes())
	if there, err := u.has(ctx, d); there || err != nil {
		return d, err
	}
	path := u.file()
	if !u.claim(d, path) {
		return d, nil // another call has it
	}
	f, err := create(path)
	if err != nil {
		return Digest{}, err
	}
	_, err = f.Write(buffer.Bytes())
	return d, finish(f, err)
}

var buffers = sync.Pool{New: func() any { return new(bytes.Buffer) }}

func readWhole(ctx context.Context, w io.Writer, r *io.SectionReader) error {
	piece := pieces.Get().(*[256 << 10]byte)
	defer pieces.Put(piece)
	for off := int64(0); off < r.Size(); {
		if err := ctx.Err(); err != nil {
			return err
		}
		n, err := r.ReadAt(piece[:min(int64(len(piece)), r.Size()-off)], off)
		if _, err := w.Write(piece[:n]); err != nil {
			return err
		}
		off += int64(n)
		switch {
		case off == r.Size():
		case err == io.EOF, err == nil && n == 0:
			return vfs.Errorf(vfs.Conflict, "it became shorter while it was read; put it again")
		case err != nil:
			return err
		}
	}
	return nil
}

// addStream writes r to a file while it hashes it, and removes the file if r is not
// new.
func (u *upload) addStream(ctx context.Context, r *io.SectionReader) (Digest, error) {
	path := u.file()
	f, err := create(path)
	if err != nil {
		return Digest{}, err
	}
	h := sha256.New()
	if err := finish(f, readWhole(ctx, io.MultiWriter(h, f), r)); err != nil {
		return Digest{}, err
	}
	d := Digest{Size: r.Size()}
	h.Sum(d.Hash[:0])
	there, err := u.has(ctx, d)
	if !there && err == nil {
		there = !u.claim(d, path)
	}
	if there || err != nil {
		os.Remove(path)
	}
	return d, err
}

// create makes a file for a blob. Call finish when done.
func create(path string) (*os.File, error) {
	return os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o400)
}

func finish(f *os.File, err error) error {
	if err == nil {
		err = f.Chmod(0o444) // despite the umask
	}
	if err == nil && !flushesAll {
		err = f.Sync()
	}
	if closed := f.Close(); err == nil {
		err = closed
	}
	if err != nil {
		os.Remove(f.Name())
	}
	return err
}

func (u *upload) file() string {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.files++
	return filepath.Join(u.dir, strconv.FormatUint(u.files, 10))
}

// claim notes that the caller stores d in the file at path. It reports false if
// somebody did so before.
func (u *upload) claim(d Digest, path string) bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	if _, taken := u.blobs[d.Hash]; taken {
		return false
	}
	u.blobs[d.Hash] = path
	u.stored += d.Size
	return true
}

// has reports whether d was added, or is stored already. If so, it keeps d from a
// collector until the upload is closed, and for the period of grace after.
func (u *upload) has(ctx context.Context, d Digest) (bool, error) {
	u.mu.Lock()
	_, added := u.blobs[d.Hash]
	u.mu.Unlock()
	if added {
		return true, nil
	}
	there, err := u.s.keep(ctx, d)
	if !there || err != nil {
		return false, err
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	if _, added := u.blobs[d.Hash]; !added {
		u.blobs[d.Hash] = ""
	}
	return true, nil
}

var errOver = vfs.Errorf(vfs.Stale, "the upload is over; begin another")

func (u *upload) fail(err error) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.err == nil {
		u.err = err
	}
}

// Stored implements [Upload].
func (u *upload) Stored() int64 {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.stored
}
