package physical

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
)

// Holds reports whether hostPath is the served directory or lies in it. hostPath need
// not exist. Holds compares the identities of the directories above hostPath, not their
// names. It does not recognise a bind mount that shows a part of the served directory
// elsewhere. Errors are for the host.
func (s *Store) Holds(hostPath string) (bool, error) {
	root, err := s.top.Stat(".")
	if err != nil {
		return false, err
	}
	path, err := filepath.Abs(hostPath)
	if err != nil {
		return false, err
	}
	for { // up to the nearest that exists
		_, way, err := wayTo(path)
		up := filepath.Dir(path)
		if !errors.Is(err, fs.ErrNotExist) || up == path {
			return slices.ContainsFunc(way, func(fi os.FileInfo) bool { return os.SameFile(fi, root) }), err
		}
		path = up
	}
}
