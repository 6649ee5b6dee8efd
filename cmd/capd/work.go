package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"capd/backend/physical"
	"capd/vfs"
	"capd/virtualfs"
)

// What a host keeps in its state directory beside its sockets and its key.
func (s state) journals() string     { return filepath.Join(s.dir, "journal") }
func (s state) materialized() string { return filepath.Join(s.dir, "materialized") }
func (s state) contents() string     { return filepath.Join(s.dir, "cas") }

// opener opens what a name in a journal stands for.
type opener = func(ctx context.Context, name string) (vfs.Dir, error)

// journal is a directory where a process writes what it is about to do. It is the
// process's own as long as it lives: others settle what is found there afterwards.
type journal struct {
	vfs.Dir
	path  string
	owner *os.File
	store *physical.Store
}

// ownerFile is locked by the process that a journal belongs to.
const ownerFile = "owner"

// newJournal makes a journal, and first settles what processes that died have left.
func (s state) newJournal(ctx context.Context, open map[string]virtualfs.Opener, other opener, logf func(string, ...any)) (*journal, error) {
	if err := os.MkdirAll(s.journals(), 0o700); err != nil {
		return nil, s.unusable(err)
	}
	if err := s.settle(ctx, open, other, logf); err != nil {
		return nil, err
	}
	path, err := os.MkdirTemp(s.journals(), "")
	if err != nil {
		return nil, s.unusable(err)
	}
	j := &journal{path: path}
	if err := j.open(true); err != nil {
		j.Close()
		return nil, err
	}
	return j, nil
}

// open takes the journal for this process. It answers busy when another has it.
func (j *journal) open(make bool) (err error) {
	flag := os.O_RDWR
	if make {
		flag |= os.O_CREATE
	}
	if j.owner, err = os.OpenFile(filepath.Join(j.path, ownerFile), flag, 0o600); err != nil {
		return fmt.Errorf("a journal cannot be opened: %w", reason(err))
	}
	if err := lockFile(j.owner); err != nil {
		j.owner.Close()
		j.owner = nil
		return vfs.Busy
	}
	entries := filepath.Join(j.path, "entries")
	if err := os.MkdirAll(entries, 0o700); err != nil {
		return fmt.Errorf("a journal cannot be opened: %w", reason(err))
	}
	if j.store, err = openPhysical(entries, physical.Options{}); err != nil {
		return err
	}
	j.Dir = j.store.Root()
	return nil
}

// Close gives the journal up, with all that is in it.
func (j *journal) Close() error {
	err := j.release()
	return errors.Join(err, os.RemoveAll(j.path))
}

// release gives the journal up and leaves what is in it to the next process.
func (j *journal) release() (err error) {
	if j.Dir != nil {
		err = errors.Join(j.Dir.Close(), j.store.Close())
		j.Dir = nil
	}
	if j.owner != nil {
		err = errors.Join(err, j.owner.Close())
		j.owner = nil
	}
	return err
}

// settle brings to an end what processes that died had begun.
func (s state) settle(ctx context.Context, open map[string]virtualfs.Opener, other opener, logf func(string, ...any)) error {
	all, err := os.ReadDir(s.journals())
	if err != nil {
		return s.unusable(err)
	}
	for _, e := range all {
		j := &journal{path: filepath.Join(s.journals(), e.Name())}
		if err := j.open(false); err != nil {
			_ = j.release() // its owner lives, or had not begun
			continue
		}
		settled, err := virtualfs.Recover(ctx, j.Dir, open, other)
		whole := err == nil
		for _, r := range settled {
			if errors.Is(r.Err, errOthers) {
				whole, err = false, errOthers
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
		if !whole && errors.Is(err, errOthers) { // whoever has the capability settles it
			_ = j.release()
			continue
		}
		if !whole {
			logf("capd: what it had begun could not be settled wholly; the copies are kept in %s: %v", j.path, err)
			_ = j.release()
			continue
		}
		if err := j.Close(); err != nil {
			logf("capd: %v", err)
		}
	}
	return nil
}
