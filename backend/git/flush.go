package git

import (
	"errors"
	"io/fs"
	"os"
	"path"
	"path/filepath"
)

// flushNames returns when the names in these directories of the repository would
// survive a power cut. One that is not there has none.
func flushNames(root *os.Root, dirs ...string) error {
	for _, dir := range dirs {
		f, err := root.Open(filepath.FromSlash(dir))
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err == nil {
			err = errors.Join(flush(f), f.Close())
		}
		if err != nil {
			return ambient(err)
		}
	}
	return nil
}

// above are the directories on the way from the repository to what is called name,
// the nearest first.
func above(name string) (dirs []string) {
	for name != "." {
		name = path.Dir(name)
		dirs = append(dirs, name)
	}
	return dirs
}
