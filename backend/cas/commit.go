package cas

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"capd/hostfile"
	"capd/vfs"
)

// Commit implements [Upload]. It flushes the blobs together, gives them their names,
// and flushes the names. It waits for every Add in progress.
func (u *upload) Commit(ctx context.Context) error {
	u.adding.Lock()
	defer u.adding.Unlock()
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.over {
		return errOver
	}
	if u.err != nil {
		return u.err
	}
	u.over = true
	grows := vfs.Effect{Bytes: u.stored}
	for _, path := range u.blobs {
		if path != "" {
			grows.Nodes++
		}
	}
	step("staged")
	if grows.Nodes > 0 {
		if err := flushAll(u.lock); err != nil {
			return explain(err)
		}
		step("flushed")
	}
	leave, err := u.s.enter(ctx, touchAlone)
	if err != nil {
		return err
	}
	err = vfs.Commit(ctx, grows, func() (vfs.Effect, error) { return grows, u.place() })
	leave()
	if err == nil && len(u.blobs) > 0 { // the names of blobs stored before may be too new to be on disk
		err = u.flushNames()
	}
	step("committed")
	return explain(err)
}

// place gives the blobs their names and touches all of them, which starts the period of
// grace. The lock on the store must be held.
func (u *upload) place() error {
	for hash, staged := range u.blobs {
		name := u.s.blob(Digest{Hash: hash})
		if staged != "" {
			if err := place(staged, name); err != nil {
				return err
			}
			step("placed")
		}
		switch err := touch(name); {
		case errors.Is(err, fs.ErrNotExist): // it was stored before, and found damaged since
			return errDamaged
		case err != nil:
			return err
		}
	}
	return nil
}

// place gives a staged blob its name, unless somebody has stored the same blob
// meanwhile. An upload that began after this one was staged may rely on that file, and
// must not find an older one in its place.
func place(staged, name string) error {
	err := os.Link(staged, name)
	if errors.Is(err, fs.ErrNotExist) {
		if err = os.Mkdir(filepath.Dir(name), 0o700); err == nil || errors.Is(err, fs.ErrExist) {
			err = os.Link(staged, name)
		}
	}
	if errors.Is(err, fs.ErrExist) {
		return nil
	}
	return err
}

func (u *upload) flushNames() error {
	if flushesAll {
		return flushAll(u.lock)
	}
	flushed := map[string]bool{}
	for hash := range u.blobs {
		if dir := filepath.Dir(u.s.blob(Digest{Hash: hash})); !flushed[dir] {
			flushed[dir] = true
			if err := hostfile.SyncDir(dir); err != nil {
				return err
			}
		}
	}
	return hostfile.SyncDir(u.s.path(blobsDir))
}

// Close implements [Upload]. It waits for every Add in progress.
func (u *upload) Close() error {
	u.adding.Lock()
	defer u.adding.Unlock()
	u.mu.Lock()
	defer u.mu.Unlock()
	u.over = true
	if u.lock == nil {
		return nil
	}
	removeUpload(u.dir, u.lock)
	u.lock = nil
	return nil
}

// removeUpload removes the directory of an upload whose lock is held, and closes the
// lock. It removes the lock file last, so that nobody takes the rest for another
// upload.
func removeUpload(dir string, lock *os.File) {
	defer lock.Close()
	entries, err := os.ReadDir(dir)
	if err != nil {
		return
	}
	for _, e := range entries {
		if e.Name() != uploadLock {
			os.Remove(filepath.Join(dir, e.Name()))
		}
	}
	hostfile.RemoveLocked(lock)
	os.Remove(dir)
}

// sweepUploads removes uploads of dead processes. It returns when the oldest upload in
// progress began, or the zero time if there is none.
func (s *Store) sweepUploads() (oldest time.Time, err error) {
	dirs, err := os.ReadDir(s.path(tmpDir))
	if err != nil {
		return time.Time{}, err
	}
	for _, e := range dirs {
		if !e.IsDir() {
			continue // not of this store
		}
		began, bad := sweepUpload(s.path(tmpDir, e.Name()))
		err = errors.Join(err, bad)
		if !began.IsZero() && (oldest.IsZero() || began.Before(oldest)) {
			oldest = began
		}
	}
	return oldest, err
}

// sweepUpload removes the upload in dir if its process is dead. Otherwise it returns
// when the upload began.
func sweepUpload(dir string) (began time.Time, err error) {
	lock, err := os.OpenFile(filepath.Join(dir, uploadLock), os.O_CREATE|os.O_RDWR, 0o600)
	if errors.Is(err, fs.ErrNotExist) {
		return time.Time{}, nil // just removed
	}
	if err != nil {
		return time.Time{}, err
	}
	defer lock.Close()
	free, err := hostfile.TryLock(lock, true)
	if err != nil {
		return time.Time{}, err
	}
	if free {
		if hostfile.IsAt(lock, lock.Name()) {
			removeUpload(dir, lock)
		}
		return time.Time{}, nil
	}
	fi, err := lock.Stat()
	if err != nil {
		return time.Time{}, err
	}
	return fi.ModTime(), nil
}
