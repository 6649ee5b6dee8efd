package physical

import (
	"os"
	"path/filepath"
	"strconv"
	"testing"

	"capd/hostfile"

	"golang.org/x/sys/unix"
)

// Whatever path it is given, openat2 stays below the directory at which it starts, and
// follows no link. So the check of names is not the only protection.
func TestOpenat2StaysBelow(t *testing.T) {
	dir := t.TempDir()
	below := filepath.Join(dir, "below")
	for _, err := range []error{
		os.MkdirAll(filepath.Join(below, "d"), 0o755), os.Symlink("d", filepath.Join(below, "inside")),
		os.Symlink("..", filepath.Join(below, "up")), os.Symlink("/", filepath.Join(below, "root")),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	at := func(path string) int {
		fd, err := unix.Open(path, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { unix.Close(fd) })
		return fd
	}
	root, fds := at(below), at("/proc/self/fd")
	for _, c := range []struct {
		dir  int
		path string
		want error
	}{
		{root, "d", nil}, {root, "..", unix.EXDEV}, {root, "d/../..", unix.EXDEV}, {root, "/", unix.EXDEV}, {root, below, unix.EXDEV},
		{root, "inside/.", unix.ELOOP}, {root, "up/.", unix.ELOOP}, {root, "root/.", unix.ELOOP},
		{fds, strconv.Itoa(root) + "/d", unix.ELOOP}, // a magic link
	} {
		fd, err := openat2(c.dir, c.path, unix.O_PATH, 0)
		if err == nil {
			unix.Close(fd)
		}
		if err != c.want {
			t.Errorf("openat2 of %q: %v, want %v", c.path, err, c.want)
		}
	}
}

// A stage holds its lock if nobody else does, and if it is still the file with the lock's
// name.
func TestHoldsLock(t *testing.T) {
	for name, c := range map[string]struct {
		meddle func(path string) error
		holds  bool
	}{
		"alone":    {func(string) error { return nil }, true},
		"removed":  {os.Remove, false},
		"replaced": {func(path string) error { return os.WriteFile(path+"2", nil, 0o600) }, false},
		"locked": {func(path string) error {
			other, err := os.Open(path)
			if err == nil {
				t.Cleanup(func() { other.Close() })
				_, err = hostfile.TryLock(other, true)
			}
			return err
		}, false},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			s, err := OpenAmbient(dir, Options{})
			if err != nil {
				t.Fatal(err)
			}
			defer s.Close()
			d, err := s.enter(place{})
			if err != nil {
				t.Fatal(err)
			}
			defer s.leave(d)
			lock, err := d.create(lockName, 0o600)
			if err != nil {
				t.Fatal(err)
			}
			defer lock.Close()
			path := filepath.Join(dir, lockName)
			if err := c.meddle(path); err != nil {
				t.Fatal(err)
			}
			if _, err := os.Stat(path + "2"); err == nil {
				if err := os.Rename(path+"2", path); err != nil {
					t.Fatal(err)
				}
			}
			if got := holdsLock(d, lock); got != c.holds {
				t.Errorf("holdsLock = %v", got)
			}
		})
	}
}
