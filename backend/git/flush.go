package git

import (
	"errors"
	"io/fs"
	"os"
	"path"
	"path/filepath"

	"capd/hostfile"
)

// flushNames returns when the names in these directories of the repository would
// survive a power cut. It skips a directory that does not exist.
func flushNames(root *os.Root, dirs ...string) error {
	for _, dir := range dirs {
		f, err := root.Open(filepath.FromSlash(dir))
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err == nil {
			err = errors.Join(hostfile.SyncNames(f), f.Close())
		}
		if err != nil {
			return ambient(err)
		}
	}
	return nil
}

// above returns the directories from name up to the repository, the nearest first.
func above(name string) (dirs []string) {
	for name != "." {
		name = path.Dir(name)
		dirs = append(dirs, name)
	}
	return dirs
}
