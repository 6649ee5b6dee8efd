package server

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"capd/backend/physical"
	"capd/state"
	"capd/vfs"
	"capd/virtualfs"
)

// opener opens the tree that a name in a journal stands for.
type opener = func(ctx context.Context, name string) (vfs.Dir, error)

// ErrOthers is the error of FSOptions.Recover for a tree that another process has to open.
var ErrOthers = vfs.Errorf(vfs.NotFound, "this belongs to another capability")

// journal is a directory in which a process writes what it is about to do. A lock on a
// file beside it makes it the process's own while the process lives. When the process has
// died, others recover what they find there. The file is made before the directory, and
// removed after it.
type journal struct {
	vfs.Dir
	path  string
	owner *os.File
	store *physical.Store
}

const ownerSuffix = ".owner"

// newJournal makes a journal. First it recovers the journals of processes that died.
func newJournal(ctx context.Context, st state.Dir, open map[string]virtualfs.Opener, other opener, logf func(string, ...any)) (*journal, error) {
	if err := state.MakeDir(st.Journals()); err != nil {
		return nil, st.Unusable(err)
	}
	if err := settle(ctx, st, open, other, logf); err != nil {
		return nil, err
	}
	for {
		j := &journal{path: filepath.Join(st.Journals(), rand.Text())}
		err := j.open()
		switch {
		case err == nil:
			return j, nil
		case vfs.CodeOf(err) != vfs.Busy: // another process took it, to recover it
			return nil, errors.Join(err, j.Close())
		}
	}
}

// open takes the journal for this process, and makes it if it is missing. It answers busy
// if another process has it.
func (j *journal) open() error {
	owner, err := state.Take(j.path + ownerSuffix)
	if err != nil {
		return fmt.Errorf("a journal cannot be opened: %w", state.Reason(err))
	}
	j.owner = owner
	if err := state.MakeDir(j.path); err != nil {
		return fmt.Errorf("a journal cannot be opened: %w", state.Reason(err))
	}
	if j.store, err = openPhysical(j.path); err != nil {
		return err
	}
	j.Dir = j.store.Root()
	return nil
}

// Close ends the journal and removes everything in it.
func (j *journal) Close() error {
	err := j.shut()
	if j.owner == nil {
		return err
	}
	if gone := os.RemoveAll(j.path); gone != nil {
		return errors.Join(err, gone, j.release())
	}
	gone := os.Remove(j.owner.Name())
	err = errors.Join(err, j.release())
	if gone != nil { // some systems cannot remove an open file
		err = errors.Join(err, os.Remove(j.path+ownerSuffix))
	}
	return err
}

// release ends this process's hold on the journal, and leaves its contents to another
// process.
func (j *journal) release() error {
	err := j.shut()
	if j.owner != nil {
		err = errors.Join(err, j.owner.Close())
		j.owner = nil
	}
	return err
}

func (j *journal) shut() (err error) {
	if j.store != nil {
		err = errors.Join(j.Dir.Close(), j.store.Close())
	}
	j.Dir, j.store = nil, nil
	return err
}

// settle finishes or undoes what processes that died have left unfinished.
func settle(ctx context.Context, st state.Dir, open map[string]virtualfs.Opener, other opener, logf func(string, ...any)) error {
	all, err := os.ReadDir(st.Journals())
	if err != nil {
		return st.Unusable(err)
	}
	done := map[string]bool{}
	for _, e := range all {
		name := strings.TrimSuffix(e.Name(), ownerSuffix)
		if done[name] {
			continue
		}
		done[name] = true
		j := &journal{path: filepath.Join(st.Journals(), name)}
		if err := j.open(); err != nil {
			_ = j.release() // its owner lives
			continue
		}
		settled, err := virtualfs.Recover(ctx, j.Dir, open, other)
		whole := err == nil
		for _, r := range settled {
			if errors.Is(r.Err, ErrOthers) {
				whole, err = false, ErrOthers
				continue
			}
			what := "undone"
			if r.Done {
				what = "finished"
			}
			logf("capd: changes that a process which died had begun were %s", what)
			for _, c := range r.Left {
				logf("capd: but not at %s: %s", vfs.Printable(c.Path), c.Why)
			}
			whole = whole && r.Err == nil && len(r.Left) == 0
		}
		if !whole && errors.Is(err, ErrOthers) { // whoever has the capability recovers it
			_ = j.release()
			continue
		}
		if !whole {
			logf("capd: a process that died left changes that could be neither finished nor undone; the copies are in %s: look at them, then remove them: %v", j.path, err)
			_ = j.release()
			continue
		}
		if err := j.Close(); err != nil {
			logf("capd: %v", err)
		}
	}
	return nil
}
