package git

import (
	"path/filepath"

	"capd/vfs"
)

// FindAmbient returns the repository that contains dir: dir itself, or the closest
// directory above it that is a working tree or a repository, as git finds it. Pass the
// result to [OpenAmbient].
func FindAmbient(dir string) (repo string, ok bool) {
	at, err := filepath.Abs(dir)
	if err != nil {
		return "", false
	}
	for {
		if _, err := locate(at); vfs.CodeOf(err) != vfs.NotFound {
			return at, true // opening it will say why it cannot be read
		}
		up := filepath.Dir(at)
		if up == at {
			return "", false
		}
		at = up
	}
}
