package git

import (
	"path/filepath"

	"capd/vfs"
)

// FindAmbient returns the repository that dir lies in: dir itself or the closest directory
// above it that is a working tree or a repository, as git finds it. What it returns
// is for [OpenAmbient].
func FindAmbient(dir string) (repo string, ok bool) {
	at, err := filepath.Abs(dir)
	if err != nil {
		return "", false
	}
	for {
		if _, err := locate(at); vfs.CodeOf(err) != vfs.NotFound {
			return at, true // one that cannot be read says why when it is opened
		}
		up := filepath.Dir(at)
		if up == at {
			return "", false
		}
		at = up
	}
}
