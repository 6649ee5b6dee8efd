package hostfile

import (
	"os"

	"golang.org/x/sys/windows"
)

// NeverWait is a flag for os.OpenFile; it has no effect here.
const NeverWait = 0

// OpenFilesStay says that an open file cannot be removed.
const OpenFilesStay = true

// lockOffset is the byte that is locked. It is far beyond the content of a lock file,
// since others cannot read locked bytes.
const lockOffset = 1 << 30

// TryLock locks f until it is closed or the process ends. It reports false when somebody
// else holds a conflicting lock.
func TryLock(f *os.File, exclusive bool) (bool, error) {
	how := uint32(windows.LOCKFILE_FAIL_IMMEDIATELY)
	if exclusive {
		how |= windows.LOCKFILE_EXCLUSIVE_LOCK
	}
	err := windows.LockFileEx(windows.Handle(f.Fd()), how, 0, 1, 0, &windows.Overlapped{Offset: lockOffset})
	if err == windows.ERROR_LOCK_VIOLATION {
		return false, nil
	}
	return err == nil, err
}

// SyncNames does nothing: names are journaled here.
func SyncNames(*os.File) error { return nil }
