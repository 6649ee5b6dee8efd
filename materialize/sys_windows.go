package materialize

import (
	"os"

	"golang.org/x/sys/windows"
)

const openNeverWaits = 0

// lockedFilesStay is true: an open file cannot be removed here.
const lockedFilesStay = true

// tryLock locks f until it is closed or the process ends. It reports false when another
// process holds the lock.
func tryLock(f *os.File) (bool, error) {
	const flags = windows.LOCKFILE_EXCLUSIVE_LOCK | windows.LOCKFILE_FAIL_IMMEDIATELY
	err := windows.LockFileEx(windows.Handle(f.Fd()), flags, 0, 1, 0, &windows.Overlapped{})
	if err == windows.ERROR_LOCK_VIOLATION {
		return false, nil
	}
	return err == nil, err
}

// own is always true: a user's own directories say who may enter them.
func own(os.FileInfo) bool { return true }

// attrOf returns the attributes of info, without those that prove a file unchanged:
// every file is read for that.
func attrOf(info os.FileInfo) attr {
	return attr{mode: info.Mode(), size: info.Size(), mtime: info.ModTime().UnixNano(), nlink: 1}
}
