package hostfile_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"capd/hostfile"
	"capd/vfs/vfstest/check"
)

// Whatever names a program gave to what it left, all of it is removed.
func TestEraseNames(t *testing.T) {
	for name, made := range map[string]func(t *testing.T, dir string){
		"nothing": func(*testing.T, string) {},
		"files where directories are moved to": func(t *testing.T, dir string) {
			for _, name := range []string{"moved-1", "moved-2", "moved-3"} {
				check.OK(t, os.WriteFile(filepath.Join(dir, name), nil, 0o600))
			}
		},
		"a directory there": func(t *testing.T, dir string) {
			check.OK(t, os.MkdirAll(filepath.Join(dir, "moved-1/moved-2/moved-3"), 0o700))
			check.OK(t, os.WriteFile(filepath.Join(dir, "moved-1/f"), nil, 0o600))
		},
		"an empty one": func(t *testing.T, dir string) { check.OK(t, os.Mkdir(filepath.Join(dir, "moved-1"), 0o700)) },
		"a link":       func(t *testing.T, dir string) { check.OK(t, os.Symlink("a", filepath.Join(dir, "moved-1"))) },
	} {
		t.Run(name, func(t *testing.T) {
			top := t.TempDir()
			for _, deep := range []string{"a/b/c/d", "x/moved-1/moved-1", "moved/y/z"} { // some are listed before moved-1, some after it
				check.OK(t, os.MkdirAll(filepath.Join(top, "gone", deep), 0o700))
				check.OK(t, os.WriteFile(filepath.Join(top, "gone", deep, "f"), nil, 0o600))
			}
			made(t, filepath.Join(top, "gone"))
			root, err := os.OpenRoot(top)
			check.OK(t, err)
			defer root.Close()
			check.OK(t, hostfile.Erase(root, "gone"))
			if _, err := root.Lstat("gone"); !errors.Is(err, fs.ErrNotExist) {
				t.Errorf("it is there: %v", err)
			}
		})
	}
}
