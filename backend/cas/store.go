package cas

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync/atomic"
	"time"

	"capd/backend/internal/recent"
	"capd/hostfile"
	"capd/vfs"
)

// Options configure a local store. The zero value is usable.
type Options struct {
	MaxContents int // contents open at once; 0 means 4096
}

// Store is a store of blobs in a directory of a local file system. Several processes
// may use it at once:
//
//	blobs/ab/cdef…  a blob by its hash, mode 0444, written once
//	tmp/…           uploads in progress, each a directory with a lock file
//	leases/…        roots that are open, each a locked file
//	pins/NAME       roots that are kept
//	damaged/…       files whose content did not match their name
//	lock, collect   see below
//
// A blob gets its name only after its content would survive a power cut. So a blob with
// a name is whole, even after the process or the machine stopped. A reader compares it
// with its name nevertheless, and moves a damaged one away. The next upload of that
// content stores it again.
//
// The file lock is held shared to make pins and leases, to give blobs their names, and
// to touch a blob that an upload finds stored. It is held exclusively to remove blobs.
// A collector removes a blob only if no pin and no lease keeps it, and it was not
// touched since the horizon. The horizon is the start of the oldest upload in progress,
// or of the period of grace, whichever is earlier. A blob's time never goes back: a
// name is only given while no file has it, and times are only set to the present. So
// what an upload relies on stays while the upload is open, and what it pinned before
// closing stays after. Locks and times are those of the file system; on a network file
// system neither is reliable.
type Store struct {
	dir         string
	maxContents int64
	contents    atomic.Int64                          // open contents
	verified    *recent.Cache[verification, struct{}] // blobs that were compared with their names
}

var (
	_ Blobs  = (*Store)(nil)
	_ Pinner = (*Store)(nil)
	_ leaser = (*Store)(nil)
)

// Directories and files of a store.
const (
	blobsDir   = "blobs"
	tmpDir     = "tmp"
	leasesDir  = "leases"
	pinsDir    = "pins"
	damagedDir = "damaged"
	lockFile   = "lock"
	collecting = "collect"
)

// step is called at each step of a change of the store. Tests stop the process there.
var step = func(string) {}

// OpenAmbient opens the store in dir, a path of the host. If nothing is there it makes
// it with mode 0700. It removes uploads of dead processes. Errors name dir: they are
// for the host. A Store keeps nothing open by itself.
func OpenAmbient(dir string, o Options) (*Store, error) {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return nil, fmt.Errorf("opening the store: %w", err)
	}
	s := &Store{dir: dir, maxContents: int64(cmp.Or(o.MaxContents, 4096)), verified: recent.New[verification, struct{}](1<<17, nil)}
	if err := s.make(); err != nil {
		return nil, fmt.Errorf("making the store: %w", err)
	}
	_, _ = s.sweepUploads() // what cannot be removed now is left for the next one who opens the store
	return s, nil
}

// make makes the missing directories and files of the store, so that their names would
// survive a power cut.
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
		if err := hostfile.SyncDir(dir); err != nil && !errors.Is(err, fs.ErrPermission) {
			return err
		}
	}
	return nil
}

// exists reports whether path exists, or may exist.
func exists(path string) bool {
	_, err := os.Lstat(path)
	return !errors.Is(err, fs.ErrNotExist)
}

func (s *Store) path(names ...string) string {
	return filepath.Join(append([]string{s.dir}, names...)...)
}

// blob returns the path of a blob, stored or not.
func (s *Store) blob(d Digest) string {
	digits := d.String()
	return s.path(blobsDir, digits[:2], digits[2:])
}

// enter takes the lock on the store, which is only held briefly. leave releases it.
func (s *Store) enter(ctx context.Context, exclusive bool) (leave func(), err error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	f, err := os.OpenFile(s.path(lockFile), os.O_RDWR, 0)
	if err != nil {
		return nil, explain(err)
	}
	for wait := 50 * time.Microsecond; ; wait = min(2*wait, 5*time.Millisecond) {
		ok, err := hostfile.TryLock(f, exclusive)
		if ok {
			return func() { f.Close() }, nil
		}
		if err == nil {
			select {
			case <-ctx.Done():
				err = ctx.Err()
			case <-time.After(wait):
			}
		}
		if err != nil {
			f.Close()
			return nil, explain(err)
		}
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

// named returns the FileInfo of the file with d's name, or nil if there is none.
func (s *Store) named(d Digest) (fs.FileInfo, error) {
	fi, err := os.Lstat(s.blob(d))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	return fi, explain(err)
}

// couldBe reports whether a file may have the content d, without reading it.
func couldBe(fi fs.FileInfo, d Digest) bool { return fi.Mode().IsRegular() && fi.Size() == d.Size }

// keep touches d, if it is stored. It moves away a file that has d's name and other
// content.
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

// Resolve returns the digest of the blob that has hash, with its size. It answers
// notFound.
func (s *Store) Resolve(ctx context.Context, hash [32]byte) (Digest, error) {
	if err := ctx.Err(); err != nil {
		return Digest{}, err
	}
	d := Digest{Hash: hash}
	if hash == Empty.Hash {
		return Empty, nil
	}
	fi, err := s.named(d)
	if err != nil {
		return Digest{}, err
	}
	if fi == nil {
		return Digest{}, errNoBlob
	}
	d.Size = fi.Size()
	return d, nil
}

var errNoBlob = vfs.Errorf(vfs.NotFound, "the store has no content with this digest")

// unique returns a new name.
func unique() string { return rand.Text() }
