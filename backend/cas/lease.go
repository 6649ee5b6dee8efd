package cas

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"

	"capd/hostfile"
	"capd/vfs"
)

// lease implements leaser. A lease is a file that is locked until it is released or its
// process ends.
func (s *Store) lease(ctx context.Context, root Digest) (release func(), err error) {
	if root.Size < 0 {
		return nil, errUnsized
	}
	text, err := root.MarshalText()
	if err != nil {
		return nil, err
	}
	leave, err := s.enter(ctx, false)
	if err != nil {
		return nil, err
	}
	defer leave()
	f, err := os.OpenFile(s.path(leasesDir, unique()), os.O_CREATE|os.O_EXCL|os.O_RDWR, 0o600)
	if err != nil {
		return nil, explain(err)
	}
	release = func() { hostfile.RemoveLocked(f) }
	ok, err := hostfile.TryLock(f, true)
	if err == nil && !ok {
		err = vfs.Busy
	}
	if err == nil {
		_, err = f.Write(text)
	}
	if err != nil {
		release()
		return nil, explain(err)
	}
	return release, nil
}

// leases returns the open roots. Unless keep is set it removes the leases of dead
// processes. The lock on the store must be held exclusively.
func (s *Store) leases(keep bool) ([]Digest, error) {
	entries, err := os.ReadDir(s.path(leasesDir))
	if err != nil {
		return nil, err
	}
	var roots []Digest
	for _, e := range entries {
		path := filepath.Join(s.path(leasesDir), e.Name())
		root, live, err := leased(path, keep)
		if err != nil {
			return nil, err
		}
		if live {
			roots = append(roots, root)
		}
	}
	return roots, nil
}

func leased(path string, keep bool) (root Digest, live bool, err error) {
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return Digest{}, false, nil
	}
	if err != nil {
		return Digest{}, false, err
	}
	defer f.Close()
	free, err := hostfile.TryLock(f, true)
	if err != nil {
		return Digest{}, false, err
	}
	if free {
		if !keep {
			hostfile.RemoveLocked(f)
		}
		return Digest{}, false, nil
	}
	lease, err := readPin(path)
	if errors.Is(err, fs.ErrNotExist) { // released meanwhile
		return Digest{}, false, nil
	}
	return lease.Root, true, err
}
