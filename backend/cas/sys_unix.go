//go:build unix

package cas

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

// tryLock takes f's lock, and reports false when somebody else holds a conflicting one.
// The lock is released when f is closed, and when the process ends.
func tryLock(f *os.File, exclusive bool) (bool, error) {
	how := unix.LOCK_SH
	if exclusive {
		how = unix.LOCK_EX
	}
	for {
		switch err := unix.Flock(int(f.Fd()), how|unix.LOCK_NB); {
		case err == nil:
			return true, nil
		case errors.Is(err, unix.EWOULDBLOCK):
			return false, nil
		case !errors.Is(err, unix.EINTR):
			return false, err
		}
	}
}

// touch sets path's time to the present. The kernel takes that time from the clock of
// new files while it sets it, so no touch undoes a later one.
func touch(path string) error { return unix.Utimes(path, nil) }

// touchAlone says that a touch may undo a concurrent later one.
const touchAlone = false

// lockedFilesStay says that an open file cannot be removed.
const lockedFilesStay = false

// identity identifies the content of a file, as far as its times do.
type identity struct {
	dev, ino     uint64
	size         int64
	mtime, ctime int64 // nanoseconds
}

// identify reports false where this cannot be told.
func identify(f *os.File) (identity, bool) {
	var st unix.Stat_t
	if err := unix.Fstat(int(f.Fd()), &st); err != nil {
		return identity{}, false
	}
	return identity{uint64(st.Dev), st.Ino, st.Size, st.Mtim.Nano(), st.Ctim.Nano()}, true
}

// flushDirectory returns when the names in dir would survive a power cut.
func flushDirectory(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	defer d.Close()
	return d.Sync()
}
