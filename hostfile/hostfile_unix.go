//go:build unix

package hostfile

import (
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// NeverWait is a flag for os.OpenFile. With it an open returns at once on a FIFO or a
// leased file.
const NeverWait = syscall.O_NONBLOCK | syscall.O_NOCTTY

// OpenFilesStay says that an open file cannot be removed.
const OpenFilesStay = false

// TryLock locks f until it is closed or the process ends. It reports false when somebody
// else holds a conflicting lock. See flock(2).
func TryLock(f *os.File, exclusive bool) (bool, error) {
	how := unix.LOCK_SH
	if exclusive {
		how = unix.LOCK_EX
	}
	for {
		switch err := unix.Flock(int(f.Fd()), how|unix.LOCK_NB); err {
		case nil:
			return true, nil
		case unix.EWOULDBLOCK:
			return false, nil
		case unix.EINTR:
		default:
			return false, err
		}
	}
}

// SyncNames writes the names in the open directory f to disk, or the content of a file.
func SyncNames(f *os.File) error { return f.Sync() }
