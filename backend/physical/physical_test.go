package physical_test

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"capd/backend/physical"
	"capd/vfs"
	"capd/vfs/vfstest"
)

// modes are the two ways of confining.
var modes = map[string]physical.Options{"openat2": {}, "os.Root": {Portable: true}}

func open(t testing.TB, dir string, o physical.Options) *physical.Store {
	t.Helper()
	s, err := physical.OpenAmbient(dir, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	s.Root() // sweeps
	return s
}

func TestConformance(t *testing.T) {
	t.Parallel()
	for name, o := range modes {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			vfstest.Run(t, vfstest.Store{New: func(t testing.TB, tree vfstest.Tree) vfs.Dir { return filled(t, o, tree).Root() }})
		})
		t.Run(name+", read-only", func(t *testing.T) {
			t.Parallel()
			vfstest.Run(t, vfstest.Store{Immutable: true, New: func(t testing.TB, tree vfstest.Tree) vfs.Dir { return filled(t, o, tree).ReadOnlyRoot() }})
		})
	}
}

func filled(t testing.TB, o physical.Options, tree vfstest.Tree) *physical.Store {
	t.Helper()
	dir := t.TempDir()
	s := open(t, dir, o)
	vfstest.Fill(t, s.Root(), tree,
		func(path, target string) error { return os.Symlink(target, filepath.Join(dir, path)) },
		func(path string) error { return os.Chmod(filepath.Join(dir, path), 0o755) })
	if s.Confinement() == "kernel" {
		time.Sleep(25 * time.Millisecond) // so that files are old enough to be kept open
	}
	return s
}

func TestPutYields(t *testing.T) {
	vfstest.Yields(t, open(t, t.TempDir(), physical.Options{}).Root())
}
