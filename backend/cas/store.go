package cas

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync/atomic"
	"time"

	"capd/backend/cas/internal/recent"
	"capd/vfs"
)

// Options are a local store's. The zero value is a good one.
type Options struct {
	MaxContents int // contents held open at once; 0: 4096
}

// Store is a store of blobs in a directory of a local file system, which several
// processes may use at once:
//
//	blobs/ab/cdef…  a blob by its hash, mode 0444, written once
//	tmp/…           uploads in progress, each a directory with a lock file
//	leases/…        roots that are open, each a locked file
//	pins/NAME       roots that are kept
//	damaged/…       what was found to be something else than its name says
//	lock, collect   see below
//
// A blob gets its name only after its content would survive a power cut, so that
// what has a name is whole, whenever the process or the machine stops. A reader
// compares it with its name nevertheless, and moves away what does not match; the
// next upload of that content stores it again.
//
// A collector removes a blob under the exclusive lock on lock, and only if it is
// below no pin and no lease, and was not touched since the horizon: the start of the
// oldest upload in progress, or of the period of grace, whichever is earlier. Pins and
// leases are made, blobs get their names, and an upload touches a blob that is there
// already, under the shared lock. A blob never grows older: its name is given only
// while nothing has it, however long ago what others staged of it was written, and
// nobody sets a time but to the present. So what an upload counts on stays for as long
// as the upload is open, and what it pinned before it was closed stays after. Locks and
// times are the file system's: a network file system has neither to be relied upon.
type Store struct {
	dir         string
	maxContents int64
	contents    atomic.Int64                          // held open
	verified    *recent.Cache[verification, struct{}] // blobs that were compared with their names
}

var (
	_ Blobs  = (*Store)(nil)
	_ Pinner = (*Store)(nil)
	_ leaser = (*Store)(nil)
)

// The directories and files of a store.
const (
	blobsDir   = "blobs"
	tmpDir     = "tmp"
	leasesDir  = "leases"
	pinsDir    = "pins"
	damagedDir = "damaged"
	lockFile   = "lock"
	collecting = "collect"
)

// step is called where a change of the store comes further, for tests to stop the
// process there.
var step = func(string) {}

// OpenAmbient opens the store in dir, a path of the host, and makes it, mode 0700,
// when nothing is there. It removes what uploads left whose process is gone. Its
// errors name dir: they are for the host. A Store holds nothing open by itself.
func OpenAmbient(dir string, o Options) (*Store, error) {
	if o.MaxContents <= 0 {
		o.MaxContents = 4096
	}
	dir, err := filepath.Abs(dir)
	if err != nil {
		return nil, fmt.Errorf("opening the store: %w", err)
	}
	s := &Store{dir: dir, maxContents: int64(o.MaxContents), verified: recent.New[verification, struct{}](1<<17, nil)}
	if err := s.make(); err != nil {
		return nil, fmt.Errorf("making the store: %w", err)
	}
	_, _ = s.sweepUploads() // what cannot go now is for who opens the store next
	return s, nil
}

// make makes what is not there of the store's directories and files, so that their
// names would survive a power cut.
func (s *Store) make() error {
	var changed []string // directories that got a name, from the store upwards
	for dir := s.dir; !exists(dir); {
		dir = filepath.Dir(dir)
		changed = append(changed, dir)
	}
	if err := os.MkdirAll(s.dir, 0o700); err != nil {
		return err
	}
	complete := true
	for _, sub := range []string{blobsDir, tmpDir, leasesDir, pinsDir, damagedDir} {
		switch err := os.Mkdir(s.path(sub), 0o700); {
		case err == nil:
			complete = false
		case !errors.Is(err, fs.ErrExist):
			return err
		}
	}
	for _, file := range []string{lockFile, collecting} {
		complete = complete && exists(s.path(file))
		f, err := os.OpenFile(s.path(file), os.O_CREATE|os.O_RDWR, 0o600)
		if err != nil {
			return err
		}
		f.Close()
	}
	if !complete {
		changed = append(changed, s.dir)
	}
	for _, dir := range changed {
		if err := flushDirectory(dir); err != nil && !errors.Is(err, fs.ErrPermission) {
			return err
		}
	}
	return nil
}

// exists reports whether something has the name path, or may have.
func exists(path string) bool {
	_, err := os.Lstat(path)
	return !errors.Is(err, fs.ErrNotExist)
}

func (s *Store) path(names ...string) string {
	return filepath.Join(append([]string{s.dir}, names...)...)
}

// blob is the path of a blob, whether or not it is there.
func (s *Store) blob(d Digest) string {
	digits := d.String()
	return s.path(blobsDir, digits[:2], digits[2:])
}

// enter takes the lock on the store, which nobody holds for long. leave gives it up.
func (s *Store) enter(ctx context.Context, exclusive bool) (leave func(), err error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	f, err := os.OpenFile(s.path(lockFile), os.O_RDWR, 0)
	if err != nil {
		return nil, explain(err)
	}
	for wait := 50 * time.Microsecond; ; wait = min(2*wait, 5*time.Millisecond) {
		ok, err := tryLock(f, exclusive)
		if ok {
			return func() { f.Close() }, nil
		}
		if err == nil {
			err = pause(ctx, wait)
		}
		if err != nil {
			f.Close()
			return nil, explain(err)
		}
	}
}

func pause(ctx context.Context, wait time.Duration) error {
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-timer.C:
		return nil
	}
}

// Missing implements [Blobs]. A blob whose size is not the digest's is missing.
func (s *Store) Missing(ctx context.Context, ds []Digest) ([]Digest, error) {
	var missing []Digest
	for _, d := range ds {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		there, err := s.has(d)
		if err != nil {
			return nil, err
		}
		if !there {
			missing = append(missing, d)
		}
	}
	return missing, nil
}

func (s *Store) has(d Digest) (bool, error) {
	if d == Empty {
		return true, nil
	}
	fi, err := s.named(d)
	return fi != nil && couldBe(fi, d), err
}

// named describes what has d's name, and is nil when nothing has.
func (s *Store) named(d Digest) (fs.FileInfo, error) {
	fi, err := os.Lstat(s.blob(d))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	return fi, explain(err)
}

// couldBe reports whether a file may have the content d, without reading it.
func couldBe(fi fs.FileInfo, d Digest) bool { return fi.Mode().IsRegular() && fi.Size() == d.Size }

// keep touches d, if it is stored, and moves away what has its name and is something
// else, so that there is room for it.
func (s *Store) keep(ctx context.Context, d Digest) (bool, error) {
	leave, err := s.enter(ctx, touchAlone)
	if err != nil {
		return false, err
	}
	fi, err := s.named(d)
	there := fi != nil && couldBe(fi, d)
	if there {
		err = touch(s.blob(d))
	}
	leave()
	if fi != nil && !there && err == nil {
		err = s.quarantine(ctx, fi, d)
	}
	return there, err
}

// Resolve returns the digest of the blob that has hash: its size is the store's to
// know. It answers notFound.
func (s *Store) Resolve(ctx context.Context, hash [32]byte) (Digest, error) {
	if err := ctx.Err(); err != nil {
		return Digest{}, err
	}
	d := Digest{Hash: hash}
	if hash == Empty.Hash {
		return Empty, nil
	}
	fi, err := os.Lstat(s.blob(d))
	if errors.Is(err, fs.ErrNotExist) {
		return Digest{}, errNoBlob
	}
	if err != nil {
		return Digest{}, explain(err)
	}
	d.Size = fi.Size()
	return d, nil
}

var errNoBlob = vfs.Errorf(vfs.NotFound, "the store has no content with this digest")

// unique returns a name that nothing has.
func unique() string { return rand.Text() }
