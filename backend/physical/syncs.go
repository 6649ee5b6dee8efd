package physical

import (
	"context"
	"errors"
	"os"
	"strings"
	"sync"

	"capd/hostfile"
	"capd/meter"
	"capd/vfs"
)

// A change of names is on disk before it returns. Each directory that it changed is
// synced after the commit, so that a revoke does not wait for the disk. Concurrent
// changes in one directory share a sync. Within vfs.SyncTogether the caller syncs.

// names are the names in a directory that a change is about to alter.
type names struct {
	s    *Store
	at   place
	self *os.File
}

// Sync implements vfs.Unsynced.
func (n *names) Sync() error {
	return explain(known(n.s.syncs.sync(n.at, func() error { return hostfile.SyncNames(n.self) })))
}

// Close implements vfs.Unsynced.
func (n *names) Close() error { return n.self.Close() }

// syncedAt is one directory of one Store. The roots of all Stores are alike as places.
type syncedAt struct {
	s  *Store
	at place
}

// changing are the directories whose names a change alters.
type changing struct {
	s   *Store
	all []*names
}

// of opens dir, which was entered at p, so that its names can be synced later. Call it
// before the first of them changes. A directory that the process may write but not read
// cannot be synced, and is left out.
func (c *changing) of(dir directory, p place) error {
	if c.s.noSync || c.s.syncsLater(p) {
		return nil
	}
	for _, n := range c.all {
		if n.at == p {
			return nil
		}
	}
	self, err := dir.self()
	switch err = explain(err); vfs.CodeOf(err) {
	case "":
		c.all = append(c.all, &names{c.s, p, self})
	case vfs.Denied:
		err = nil
	}
	return err
}

// sync syncs the names, or leaves that to the caller of vfs.SyncTogether.
func (c *changing) sync(ctx context.Context) (err error) {
	for _, n := range c.all {
		if !vfs.SyncLater(ctx, syncedAt{n.s, n.at}, n) {
			_ = meter.Rest(ctx, func() { err = errors.Join(err, n.Sync()) }) // synced even if there is no turn afterwards
			n.Close()
		}
	}
	c.all = nil
	return err
}

// first syncs the directory passed to of first.
func (c *changing) first() error {
	if len(c.all) == 0 {
		return nil
	}
	return c.all[0].Sync()
}

// arrived syncs a name that a link gave a file in dir, before the file loses its name
// in the directory at path. What is staged may be lost there.
func arrived(path string, dir directory) error {
	if isStaging(path[strings.LastIndexByte(path, '/')+1:]) {
		return nil
	}
	self, err := dir.self()
	if err != nil {
		return nil // it cannot be read
	}
	defer self.Close()
	return known(hostfile.SyncNames(self))
}

// known returns err, or nil if err says that the file system cannot sync directories:
// fsync(2), ERRORS.
func known(err error) error {
	switch vfs.CodeOf(explain(err)) {
	case vfs.Invalid, vfs.Unsupported, vfs.ReadOnly:
		return nil
	}
	return err
}

// drop releases the directories of a change that was not made.
func (c *changing) drop() {
	for _, n := range c.all {
		n.Close()
	}
	c.all = nil
}

// syncs lets concurrent changes of one directory share a sync.
type syncs struct {
	mu            sync.Mutex
	running, next map[place]*syncing
}

// syncing is one sync of a directory.
type syncing struct {
	done chan struct{}
	err  error
}

// sync returns when everything changed in the directory at p is on disk. write does the
// sync. One under way may miss the latest changes, so callers wait for the next one,
// which serves all of them.
func (s *syncs) sync(p place, write func() error) error {
	s.mu.Lock()
	if s.running == nil {
		s.running, s.next = map[place]*syncing{}, map[place]*syncing{}
	}
	if w := s.next[p]; w != nil {
		s.mu.Unlock()
		<-w.done
		return w.err
	}
	mine := &syncing{done: make(chan struct{})}
	if w := s.running[p]; w != nil {
		s.next[p] = mine
		s.mu.Unlock()
		<-w.done
		s.mu.Lock()
		delete(s.next, p)
	}
	s.running[p] = mine
	s.mu.Unlock()

	mine.err = write()

	s.mu.Lock()
	delete(s.running, p)
	s.mu.Unlock()
	close(mine.done)
	return mine.err
}
