package physical

import (
	"errors"
	"os"
)

func descriptorLimit() int { return 16384 }

func (a *attr) fromSystem(any) {}

// identOfFile uses the volume and the file's index, which NTFS does not reuse.
func identOfFile(f *os.File) (ident, error) {
	fi, err := f.Stat()
	return ident{fi: fi}, err
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
