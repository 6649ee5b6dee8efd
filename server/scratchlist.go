package server

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"capd/hostfile"
	"capd/operator"
	"capd/state"
	"capd/vfs"
)

// Scratch describes what one guest keeps for itself in a state directory. As JSON it is what the command line prints.
type Scratch struct {
	Guest   string `json:"guest"`
	Used    int64  `json:"usedBytes"`
	Limit   int64  `json:"limitBytes"`
	Mounted bool   `json:"mounted"` // the guest has a grant that shows it, and the host runs
	Problem string `json:"problem,omitempty"`
}

// ListScratch lists what guests keep for themselves in a state directory, whether or not a host runs there. What cannot be read
// is listed by the name of its directory.
func ListScratch(st state.Dir) (all []Scratch, err error) {
	entries, err := os.ReadDir(st.Scratch())
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, st.Unusable(err)
	}
	for _, e := range entries {
		if strings.HasSuffix(e.Name(), state.Removed) {
			continue
		}
		own := &scratch{dir: filepath.Join(st.Scratch(), e.Name())}
		one := Scratch{Guest: e.Name()}
		if err := own.read(); err != nil {
			one.Problem = vfs.Message(err)
		} else {
			one.Guest, one.Limit = own.of.Guest, own.of.Bytes
		}
		if used, err := usage(own.files()); err == nil {
			one.Used = used.Bytes
		}
		one.Mounted = taken(filepath.Join(own.dir, "lock"))
		all = append(all, one)
	}
	return all, nil
}

// taken reports whether a process has the lock at path.
func taken(path string) bool {
	lock, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return false
	}
	defer lock.Close()
	free, _ := hostfile.TryLock(lock, true)
	return !free
}

// RemoveScratch removes what a guest keeps for itself. It answers notFound, and busy while a host shows it to the guest.
func RemoveScratch(st state.Dir, guest operator.Subject) error {
	dir := filepath.Join(st.Scratch(), guest.DirName())
	if _, err := os.Lstat(dir); err != nil {
		return vfs.Errorf(vfs.NotFound, "%s keeps nothing as scratch; capd scratch lists who does", guest.Name())
	}
	lock, err := state.Take(filepath.Join(dir, "lock"))
	switch {
	case err == vfs.Busy:
		return vfs.Errorf(vfs.Busy, "%s has a grant that shows it; revoke that first", guest.Name())
	case err != nil:
		return unusableScratch(dir, err)
	}
	defer lock.Close()
	if err := state.RemoveDir(dir); err != nil {
		return unusableScratch(dir, err)
	}
	return nil
}
