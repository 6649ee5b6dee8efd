package state

import (
	"os"

	"golang.org/x/sys/windows"
)

// LockFile takes f for this process until f is closed (LockFileEx). It fails at once when another open
// file has the lock.
func LockFile(f *os.File) error {
	return windows.LockFileEx(windows.Handle(f.Fd()), windows.LOCKFILE_EXCLUSIVE_LOCK|windows.LOCKFILE_FAIL_IMMEDIATELY, 0, 1, 0, new(windows.Overlapped))
}

// Private always reports true: the directory's access control list decides.
func Private(os.FileInfo) bool { return true }

// secret always reports true: the file's access control list decides.
func secret(os.FileInfo) bool { return true }

// syncDir does nothing, since Windows cannot flush a directory.
func syncDir(string) error { return nil }
