package physical

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"capd/vfs"
)

// A version found out during a slow write is not taken for that of the whole write. The
// times of the file tell nothing, since the kernel sets them when a write begins; a
// mapping lets the test write its second half without setting them.
func TestVersionDuringASlowWrite(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "f"), []byte("old old"), 0o600); err != nil {
		t.Fatal(err)
	}
	s, other := opened(t, dir), opened(t, dir)
	f := walked(t, s, "f").(*File)
	var during vfs.Version
	err := f.change(t.Context(), os.O_RDWR, vfs.If{}, func(size int64) int64 { return size }, func(file *os.File, size int64) error {
		m, err := unix.Mmap(int(file.Fd()), 0, int(size), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
		if err != nil {
			return err
		}
		copy(m, "new")
		for settles := time.Duration(1); settles > 0; {
			a, err := attrOfFile(file)
			if err != nil {
				return err
			}
			settles, _ = a.settlesIn(time.Now())
		}
		during, err = vfs.VersionOf(t.Context(), walked(t, other, "f"))
		copy(m[4:], "new")
		if late := unix.Munmap(m); err == nil {
			err = late
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	after, err := vfs.VersionOf(t.Context(), walked(t, other, "f"))
	if err != nil || after == during {
		t.Errorf("the version after the write: %v, %v, want another than half way", after, err)
	}
	_, err = walked(t, other, "f").WriteAt(t.Context(), []byte("X"), 0, vfs.If{Is: during})
	if vfs.CodeOf(err) != vfs.Conflict {
		t.Errorf("a write on the version half way: %v, want conflict", err)
	}
}

func opened(t *testing.T, dir string) *Store {
	s, err := OpenAmbient(dir, Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

func walked(t *testing.T, s *Store, path string) vfs.File {
	f, err := vfs.WalkFile(t.Context(), s.Root(), path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	return f
}
