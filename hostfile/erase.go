package hostfile

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"strconv"
)

// Erase removes the directory called name in root and everything in it, whatever a
// program left there. It follows no link, and opens up directories without permissions.
// Depth costs neither memory nor descriptors: a directory inside another is first moved
// to the top.
func Erase(root *os.Root, name string) error {
	err := Unlock(root, name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	top, err := root.OpenRoot(name)
	if err != nil {
		return err
	}
	defer top.Close()
	e := eraser{top: top}
	if err := e.empty(top, e.erase); err != nil {
		return err
	}
	return root.Remove(name)
}

type eraser struct {
	top   *os.Root
	moved int
	queue []string // directories that were moved to the top
}

// Unlock sets the mode of the directory called name so that this process can work in it.
func Unlock(root *os.Root, name string) error {
	info, err := root.Lstat(name)
	if err != nil || info.Mode().Perm()&0o700 == 0o700 {
		return err
	}
	return root.Chmod(name, 0o700)
}

// erase removes the directory called name in the top, and then those that were in it.
func (e *eraser) erase(name string) error {
	e.queue = append(e.queue, name)
	for len(e.queue) > 0 {
		name := e.queue[len(e.queue)-1]
		e.queue = e.queue[:len(e.queue)-1]
		if err := e.one(name); err != nil {
			return err
		}
	}
	return nil
}

func (e *eraser) one(name string) error {
	if err := Unlock(e.top, name); err != nil {
		return err
	}
	dir, err := e.top.OpenRoot(name)
	if err != nil {
		return err
	}
	defer dir.Close()
	err = e.empty(dir, func(sub string) error {
		if err := Unlock(dir, sub); err != nil { // moving a directory writes to it
			return err
		}
		if dir.Remove(sub) == nil { // most have no directories in them, many are empty
			return nil
		}
		return e.raise(name, sub)
	})
	if err != nil {
		return err
	}
	dir.Close()
	return e.top.Remove(name)
}

// raise moves sub, which is in name, to the top, to a name that nothing there has.
func (e *eraser) raise(name, sub string) error {
	for {
		e.moved++
		to := "moved-" + strconv.Itoa(e.moved)
		if _, err := e.top.Lstat(to); err == nil {
			continue
		} else if !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		err := e.top.Rename(name+"/"+sub, to)
		if err == nil {
			e.queue = append(e.queue, to)
		}
		return err
	}
}

// empty removes the entries of dir, directories by calling sub.
func (e *eraser) empty(dir *os.Root, sub func(name string) error) error {
	for {
		names, err := some(dir)
		if err != nil || len(names) == 0 {
			return err
		}
		for _, entry := range names {
			if entry.IsDir() {
				err = sub(entry.Name())
			} else {
				err = dir.Remove(entry.Name())
			}
			if err != nil && !errors.Is(err, fs.ErrNotExist) {
				return err
			}
		}
	}
}

// some returns the first entries of dir, so that its size costs no memory.
func some(dir *os.Root) ([]os.DirEntry, error) {
	f, err := dir.Open(".")
	if err != nil {
		return nil, err
	}
	defer f.Close()
	entries, err := f.ReadDir(1024)
	if err == io.EOF {
		err = nil
	}
	return entries, err
}
