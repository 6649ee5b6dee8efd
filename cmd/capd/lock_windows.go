package main

import (
	"os"

	"golang.org/x/sys/windows"
)

// lockFile takes f for this process until it is closed (LockFileEx).
func lockFile(f *os.File) error {
	return windows.LockFileEx(windows.Handle(f.Fd()), windows.LOCKFILE_EXCLUSIVE_LOCK|windows.LOCKFILE_FAIL_IMMEDIATELY, 0, 1, 0, new(windows.Overlapped))
}

// private leaves it to the directory's access control list.
func private(os.FileInfo) bool { return true }
