package physical

import (
	"errors"
	"os"

	"golang.org/x/sys/windows"
)

const openNeverWaits = 0

func descriptorLimit() int { return 16384 }

func (a *attr) fromSystem(any) {}

// identOfFile uses the volume and the file's index, which NTFS does not reuse.
func identOfFile(f *os.File) (ident, error) {
	fi, err := f.Stat()
	return ident{fi: fi}, err
}

// tryLock locks f until it is closed or the process ends. It reports false when
// somebody else holds the lock.
func tryLock(f *os.File) (bool, error) {
	const flags = windows.LOCKFILE_EXCLUSIVE_LOCK | windows.LOCKFILE_FAIL_IMMEDIATELY
	err := windows.LockFileEx(windows.Handle(f.Fd()), flags, 0, 1, 0, &windows.Overlapped{})
	if err == windows.ERROR_LOCK_VIOLATION {
		return false, nil
	}
	return err == nil, err
}

// syncDirectory does nothing: Windows cannot sync a directory.
func syncDirectory(*os.File) error { return nil }

func own(attr) bool                    { return true }
func keepOwner(*os.File, attr)         {}
func keepAttributes(to, from *os.File) {}
func hasDefaultACL(*os.File) bool      { return false }

// lockedFilesStay is true: an open file may keep its directory from being removed.
const lockedFilesStay = true

// private is always true: the mode says nothing here.
func private(attr) bool { return true }

func keepGroup(*os.File, attr) {}

// openToSync is how to open a file so that it can be synced.
const openToSync = os.O_RDWR

// cloneFile is not supported here.
func cloneFile(uintptr, *os.File) error { return errors.ErrUnsupported }
