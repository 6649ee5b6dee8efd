package database

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"sync"

	"capd/state"
	"capd/vfs"
)

// aside is a file beside the database. It takes what must not be lost when the database cannot be written any more.
type aside struct {
	path string // "": none
	mu   sync.Mutex
}

// KeepAside writes line, which has no newline, to a file beside the database, and returns when it is on disk. Use it for
// what takes authority away, after [DB.Failed]. The next process finds it with [DB.Aside].
func (d *DB) KeepAside(line []byte) error {
	d.aside.mu.Lock()
	defer d.aside.mu.Unlock()
	if d.aside.path == "" {
		return vfs.Errorf(vfs.Unsupported, "this state is not kept")
	}
	if _, err := os.Lstat(d.aside.path); err != nil {
		if err := state.WriteFile(d.aside.path, nil); err != nil {
			return err
		}
	}
	f, err := os.OpenFile(d.aside.path, os.O_WRONLY|os.O_APPEND, 0)
	if err != nil {
		return err
	}
	_, err = f.Write(append(append([]byte{'\n'}, line...), '\n')) // what was cut off before stays a line of its own
	return errors.Join(err, f.Sync(), f.Close())
}

// Aside returns the lines that KeepAside has written since the last DropAside, also those of earlier processes. A line for which KeepAside
// has failed may be there, and may be cut off.
func (d *DB) Aside() (lines [][]byte, err error) {
	if d.aside.path == "" {
		return nil, nil
	}
	text, err := os.ReadFile(d.aside.path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, vfs.Errorf(vfs.Denied, "what was taken back and kept in %s cannot be read: %v", d.aside.path, state.Reason(err))
	}
	for line := range bytes.SplitSeq(text, []byte{'\n'}) {
		if len(line) > 0 {
			lines = append(lines, line)
		}
	}
	return lines, nil
}

// DropAside removes the lines, which are in the database now.
func (d *DB) DropAside() error {
	err := os.Remove(d.aside.path)
	if d.aside.path == "" || errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}
