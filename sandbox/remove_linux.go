package sandbox

import (
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// remove removes dir and everything below it, whatever a program left there:
// directories without permissions, or nested too deep for a path or for the descriptors
// of a process. Only this package may name things in dir's parent, and nobody else may
// use dir.
func remove(dir string) error {
	if err := clear(dir); err != nil {
		return fmt.Errorf("remove %s: %w", dir, err)
	}
	return os.Remove(dir)
}

// clear is remove without dir itself. It moves nested directories to the top and
// empties them there, so depth costs nothing.
func clear(dir string) error {
	top, err := os.Open(dir)
	if err != nil {
		return err
	}
	defer top.Close()
	at := int(top.Fd())
	names, err := top.Readdirnames(-1)
	if err != nil {
		return err
	}
	for moved := 0; len(names) > 0; names = names[1:] {
		var st unix.Stat_t
		if err := unix.Fstatat(at, names[0], &st, unix.AT_SYMLINK_NOFOLLOW); err != nil {
			return err
		}
		if st.Mode&unix.S_IFMT != unix.S_IFDIR {
			err = unix.Unlinkat(at, names[0], 0)
		} else {
			err = empty(at, names[0], func(from int, name string) error {
				moved++
				to := fmt.Sprint("moved-", moved)
				names = append(names, to)
				return unix.Renameat(from, name, at, to)
			})
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// empty removes the directory name of at and its entries. It passes nested directories
// that are not empty to moveAway.
func empty(at int, name string, moveAway func(from int, name string) error) error {
	if err := unix.Fchmodat(at, name, 0o700, 0); err != nil {
		return err
	}
	for {
		fd, err := unix.Openat(at, name, dirFlags, 0)
		if err != nil {
			return err
		}
		dir := os.NewFile(uintptr(fd), "directory")
		names, _ := dir.Readdirnames(1024) // io.EOF for an empty directory
		for _, entry := range names {
			if err = removeEntry(fd, entry, moveAway); err != nil {
				break
			}
		}
		dir.Close()
		if err != nil {
			return err
		}
		if len(names) == 0 {
			return unix.Unlinkat(at, name, unix.AT_REMOVEDIR)
		}
	}
}

func removeEntry(at int, name string, moveAway func(from int, name string) error) error {
	err := unix.Unlinkat(at, name, 0)
	if errors.Is(err, unix.EISDIR) {
		err = unix.Unlinkat(at, name, unix.AT_REMOVEDIR)
	}
	if !errors.Is(err, unix.ENOTEMPTY) {
		return err
	}
	// Moving a directory requires the right to write to it.
	if err := unix.Fchmodat(at, name, 0o700, 0); err != nil {
		return err
	}
	return moveAway(at, name)
}
