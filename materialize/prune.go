package materialize

import (
	"io"
	"os"

	"capd/hostfile"
	"capd/vfs"
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
	kept := scope{}
	for _, path := range paths {
		kept.add(path)
	}
	return explain(prune(t.root, "", kept))
}

// prune removes what is in the directory open as root, at path, except what is to be
// kept.
func prune(root *os.Root, path string, kept scope) error {
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
			if err := pruneEntry(root, e, path, kept); err != nil {
				return err
			}
		}
	}
}

func pruneEntry(root *os.Root, e os.DirEntry, dir string, kept scope) error {
	path := vfs.Join(dir, e.Name())
	switch {
	case kept[path]:
		return nil
	case !e.IsDir():
		return root.Remove(e.Name())
	case !kept.leads(path):
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
	return prune(sub, path, kept)
}
