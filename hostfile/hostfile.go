// Package hostfile does with files of the host what several packages need alike: locks,
// temporary files, names that survive a power cut, and the removal of trees that an
// untrusted program made.
package hostfile

import "os"

// SyncDir returns when the names in a directory would survive a power cut.
func SyncDir(dir string) error {
	f, err := os.Open(dir)
	if err != nil {
		return err
	}
	defer f.Close()
	return SyncNames(f)
}

// IsAt reports whether f is still the file at path, once it is locked.
func IsAt(f *os.File, path string) bool {
	there, err := os.Lstat(path)
	if err != nil {
		return false
	}
	mine, err := f.Stat()
	return err == nil && os.SameFile(there, mine)
}

// RemoveLocked removes and closes f. It keeps f's lock until the name is gone, where the
// system allows that.
func RemoveLocked(f *os.File) {
	if OpenFilesStay {
		f.Close()
	}
	os.Remove(f.Name())
	f.Close()
}

// Temp is a temporary file of the host. Where the system allows files without a name,
// nobody else can open it.
type Temp struct {
	*os.File
	named bool
}

// NewTemp makes a file in the host's directory for temporary files.
func NewTemp(pattern string) (*Temp, error) {
	f, err := os.CreateTemp("", pattern)
	if err != nil {
		return nil, err
	}
	return &Temp{f, os.Remove(f.Name()) != nil}, nil
}

// Close closes the file, which then no longer exists.
func (t *Temp) Close() error {
	err := t.File.Close()
	if t.named {
		os.Remove(t.Name())
	}
	return err
}
