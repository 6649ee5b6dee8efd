package physical

import (
	"errors"
	"os"
	"syscall"
	"time"
)

func descriptorLimit() int { return 16384 }

func (a *attr) fromSystem(any) {}

// identOfFile uses the volume, the file's index, which NTFS does not reuse, and its birth; see
// BY_HANDLE_FILE_INFORMATION.
func identOfFile(f *os.File) (ident, error) {
	var info syscall.ByHandleFileInformation
	if err := syscall.GetFileInformationByHandle(syscall.Handle(f.Fd()), &info); err != nil {
		return ident{}, &os.PathError{Op: "GetFileInformationByHandle", Path: f.Name(), Err: err}
	}
	return ident{
		dev:   uint64(info.VolumeSerialNumber),
		ino:   uint64(info.FileIndexHigh)<<32 | uint64(info.FileIndexLow),
		btime: info.CreationTime.Nanoseconds(),
	}, nil
}

func own(attr) bool                    { return true }
func keepOwner(*os.File, attr)         {}
func keepAttributes(to, from *os.File) {}
func hasDefaultACL(*os.File) bool      { return false }

// private is always true: the mode says nothing here.
func private(attr) bool { return true }

func keepGroup(*os.File, attr) {}

// openToSync is how to open a file so that it can be synced.
const openToSync = os.O_RDWR

// cloneFile is not supported here.
func cloneFile(uintptr, *os.File) error { return errors.ErrUnsupported }

// syncsWhole is false: there is no syncfs(2) here.
func syncsWhole(*os.Root) bool { return false }
func syncWhole(*os.File) error { return errors.ErrUnsupported }

// setModified sets the time of modification of f; see SetFileTime.
func setModified(f *os.File, t time.Time) error {
	to := syscall.NsecToFiletime(t.UnixNano())
	return syscall.SetFileTime(syscall.Handle(f.Fd()), nil, nil, &to)
}
