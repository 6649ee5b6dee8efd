package materialize

import (
	"io"
	"os"

	"capd/hostfile"
)

// Prune removes everything except what is at and below paths, and the directories on
// the way. It is for a host that keeps what could not be brought back: it moves the
// directory elsewhere and then closes the tree. Nothing can be synced after Prune.
// After an error only a part is removed.
func (t *Tree) Prune(paths []string) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.closed {
		return errClosed
	}
	t.closed = true
	if err := t.open(); err != nil {
		return err
	}
	return explain(prune(t.root, "", newKeeping(paths)))
}

// keeping is what prune keeps.
type keeping struct {
	at    map[string]bool
	above map[string]bool
}

func newKeeping(paths []string) keeping {
	k := keeping{map[string]bool{}, map[string]bool{}}
	for _, path := range paths {
		k.at[path] = true
		for dir := parent(path); dir != "" && !k.above[dir]; dir = parent(dir) {
			k.above[dir] = true
		}
	}
	return k
}

// prune removes what is in the directory open as root, at path, except what is to be
// kept.
func prune(root *os.Root, path string, k keeping) error {
	f, err := root.Open(".")
	if err != nil {
		return err
	}
	defer f.Close()
	for {
		entries, err := f.ReadDir(1024)
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
		for _, e := range entries {
			if err := pruneEntry(root, e, path, k); err != nil {
				return err
			}
		}
	}
}

func pruneEntry(root *os.Root, e os.DirEntry, dir string, k keeping) error {
	path := e.Name()
	if dir != "" {
		path = dir + "/" + path
	}
	switch {
	case k.at[path]:
		return nil
	case !e.IsDir():
		return root.Remove(e.Name())
	case !k.above[path]:
		return hostfile.Erase(root, e.Name())
	}
	if err := hostfile.Unlock(root, e.Name()); err != nil {
		return err
	}
	sub, err := root.OpenRoot(e.Name())
	if err != nil {
		return err
	}
	defer sub.Close()
	return prune(sub, path, k)
}
