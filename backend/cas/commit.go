package cas

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"capd/vfs"
)

// Commit implements [Upload]. The blobs are flushed together, get their names, and the
// names are flushed. It waits for every Add in progress.
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
	leave, err := u.s.enter(ctx, false)
	if err != nil {
		return err
	}
	err = vfs.Commit(ctx, grows, func() (vfs.Effect, error) { return grows, u.place() })
	leave()
	if err == nil && len(u.blobs) > 0 { // what was stored before may have its name since a moment ago
		err = u.flushNames()
	}
	step("committed")
	return explain(err)
}

// place gives the blobs their names. The lock on the store is held.
func (u *upload) place() error {
	for hash, path := range u.blobs {
		if path == "" {
			continue
		}
		if err := place(path, u.s.blob(Digest{Hash: hash})); err != nil {
			return err
		}
		step("placed")
	}
	return nil
}

// place renames a blob, in place of one that is there: it is the same, or damaged.
func place(from, to string) error {
	err := os.Rename(from, to)
	if errors.Is(err, fs.ErrNotExist) {
		if err = os.Mkdir(filepath.Dir(to), 0o700); err == nil || errors.Is(err, fs.ErrExist) {
			err = os.Rename(from, to)
		}
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
			if err := flushDirectory(dir); err != nil {
				return err
			}
		}
	}
	return flushDirectory(u.s.path(blobsDir))
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
// lock. The lock goes last, so that nobody takes what is half gone for another.
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
	if lockedFilesStay {
		lock.Close()
	}
	os.Remove(lock.Name())
	os.Remove(dir)
}

// sweepUploads removes what uploads left whose process is gone, and returns when the
// oldest began that is in progress; the zero time when none is.
func (s *Store) sweepUploads() (oldest time.Time) {
	dirs, err := os.ReadDir(s.path(tmpDir))
	if err != nil {
		return time.Time{}
	}
	for _, e := range dirs {
		dir := s.path(tmpDir, e.Name())
		lock, err := os.OpenFile(filepath.Join(dir, uploadLock), os.O_CREATE|os.O_RDWR, 0o600)
		if err != nil {
			continue // it has just gone
		}
		if ok, err := tryLock(lock, true); ok && err == nil {
			if isAt(lock, lock.Name()) {
				removeUpload(dir, lock)
			}
			lock.Close()
			continue
		}
		if fi, err := lock.Stat(); err == nil && (oldest.IsZero() || fi.ModTime().Before(oldest)) {
			oldest = fi.ModTime()
		}
		lock.Close()
	}
	return oldest
}
