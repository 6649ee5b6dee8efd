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
	"capd/vfs/batch"
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

	recovered []batch.Recovered // what became of the batches in the journals of others
}

const ownerSuffix = ".owner"

// newJournal makes a journal. First it recovers the journals of processes that died.
func newJournal(ctx context.Context, st state.Dir, open map[string]virtualfs.Opener, other opener, logf func(string, ...any)) (*journal, error) {
	if err := state.MakeDir(st.Journals()); err != nil {
		return nil, st.Unusable(err)
	}
	recovered, err := settle(ctx, st, open, other, logf)
	if err != nil {
		return nil, err
	}
	for {
		j := &journal{path: filepath.Join(st.Journals(), rand.Text()), recovered: recovered}
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

// Close ends the journal and removes everything in it, unless a batch is there that is not done: the next process settles that.
func (j *journal) Close() error {
	if j.Dir != nil {
		if needed, err := batch.Needed(context.Background(), j.Dir); needed {
			return errors.Join(err, j.release())
		}
	}
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
func settle(ctx context.Context, st state.Dir, open map[string]virtualfs.Opener, other opener, logf func(string, ...any)) (recovered []batch.Recovered, err error) {
	all, err := os.ReadDir(st.Journals())
	if err != nil {
		return nil, st.Unusable(err)
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
		recovered = append(recovered, settled...)
		j.tell(settled, err, logf)
		if gone := j.Close(); gone != nil && err == nil {
			logf("capd: %v", gone)
		}
	}
	return recovered, nil
}

// tell logs what became of the batches in j, and where copies are that nobody else has. err is why some could not be recovered.
func (j *journal) tell(settled []batch.Recovered, err error, logf func(string, ...any)) {
	conflicts := false
	for _, r := range settled {
		switch {
		case r.Err != nil || r.Kept && r.Done:
			continue
		case r.Done:
			logf("capd: changes that a process which died had begun were finished")
		case !r.Kept:
			logf("capd: changes that a process which died had begun were undone")
		}
		for _, c := range r.Left {
			logf("capd: but not at %s: %s", vfs.Printable(c.Path), c.Why)
		}
		conflicts = conflicts || r.Kept || len(r.Left) > 0
	}
	if conflicts {
		logf("capd: changes were undone, but not where somebody else had changed something since; copies of what was there before are in %s: look at them, then remove that directory", j.path)
	}
	if err != nil && !errors.Is(err, ErrOthers) { // else whoever has the capability recovers it
		logf("capd: a process that died left changes that could be neither finished nor undone; the copies are in %s: look at them, then remove that directory: %v", j.path, err)
	}
}
