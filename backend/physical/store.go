// Package physical serves a directory of the host as a vfs.Dir, and nothing outside it.
//
// A node is a place; a directory is a place and an identity. Each operation resolves
// the path from the root, compares the identity of the directory it arrives at, and
// then works on one name in it, by descriptor. So a directory that was moved, or
// removed and made again, is stale, and one that was mounted over is crossDevice, never
// the wrong tree. A Dir needs no descriptor.
//
// On Linux the kernel confines the resolution to the root: openat2(2) with
// RESOLVE_BENEATH, RESOLVE_NO_SYMLINKS and RESOLVE_NO_XDEV. Elsewhere, and on a kernel
// without it, os.Root does. [Store.Confinement] tells the host which.
//
// Changes are atomic against other guests of the same Store, and of every Store of the
// process that shows the same file: of the same directory, or of one in the other. Whole-file
// changes are also atomic against other programs of the host where the file system can exchange
// names: a Replace, Rename or Remove with a condition verifies what it displaced, and
// undoes itself. Writes in place are like those of any program.
//
// A Replace, and every change of names, is on disk before it returns, as far as the
// file system supports that and the process may read the directory. A write in place is
// on disk when [File.Sync] has returned.
package physical

import (
	"cmp"
	"context"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"capd/backend/internal/recent"
	"capd/vfs"
)

// Options configure a store. The zero value suits most hosts.
type Options struct {
	MaxDescriptors int  // directories and files kept open; 0 means a quarter of the process's limit, at most 4096, for all Stores together
	MaxContents    int  // contents open at once; 0 means a quarter of the limit, at most 4096, for each Store
	Portable       bool // use os.Root even where the kernel confines
	NoSync         bool // changes are not written to disk before they return: what is here need not outlive the host
}

// Store is one served directory.
type Store struct {
	top      *os.Root
	host     host
	versions *recent.Cache[versionKey, vfs.Version]
	where    atomic.Pointer[location]
	staging  staging
	swept    sync.Once
	syncs    syncs

	syncsWhole bool // the file system can be synced as a whole
	noSync     bool

	maxContents int64
	contents    atomic.Int64

	mu      sync.Mutex
	inside  int  // operations that use the host's descriptors
	closed  bool // no new operations
	drained chan struct{}
}

// OpenAmbient serves dir with the process's own authority. It is the only place where
// authority enters. Errors are for the host and name paths.
func OpenAmbient(dir string, o Options) (*Store, error) {
	top, err := os.OpenRoot(dir)
	if err != nil {
		return nil, err
	}
	s := &Store{top: top, noSync: o.NoSync, versions: recent.New[versionKey, vfs.Version](maxVersions, nil), drained: make(chan struct{})}
	s.staging.s = s
	share := min(4096, max(descriptorLimit()/4, 1))
	s.syncsWhole = !o.Portable && !o.NoSync && syncsWhole(top) // os.Root may lead to other file systems
	s.maxContents = int64(cmp.Or(o.MaxContents, share))
	if s.host, err = openHost(top, o.Portable, cmp.Or(o.MaxDescriptors, share), o.MaxDescriptors == 0); err != nil {
		top.Close()
		return nil, err
	}
	if err := s.enroll(dir); err != nil {
		s.host.close()
		top.Close()
		return nil, err
	}
	return s, nil
}

func openHost(top *os.Root, portable bool, maxDescriptors int, shared bool) (host, error) {
	self, err := top.Open(".")
	if err != nil {
		return nil, err
	}
	defer self.Close()
	if !portable {
		if h, err := openKernel(self, maxDescriptors, shared); err == nil {
			return h, nil
		}
	}
	return openRootHost(top)
}

// Root returns the served directory. Closing it closes neither the store nor nodes
// opened from it. The first Root removes what a dead process left staged there.
func (s *Store) Root() vfs.Dir {
	s.swept.Do(func() {
		if d, err := s.enter(place{}); err == nil {
			s.staging.sweep(d)
			s.leave(d)
		}
	})
	return &Dir{node: node{s: s}}
}

// ReadOnlyRoot is Root, but every change of it and below answers readOnly, and nothing is
// removed.
func (s *Store) ReadOnlyRoot() vfs.Dir { return &Dir{node: node{s: s, readOnly: true}} }

// Confinement returns "kernel" or "best-effort". It is for the host, never a guest.
func (s *Store) Confinement() string { return s.host.confinement() }

// closeGrace is how long Close waits for operations in progress.
const closeGrace = 5 * time.Second

// Close ends everything: every node and every open content answers stale. It waits for
// system calls in progress, and answers busy when one is stuck. The descriptors are
// then closed when that call ends.
func (s *Store) Close() error {
	s.resign()
	s.unwatch()
	s.staging.close()
	s.mu.Lock()
	if !s.closed {
		s.closed = true
		if s.inside == 0 {
			go s.drain()
		}
	}
	s.mu.Unlock()
	select {
	case <-s.drained:
		return nil
	case <-time.After(closeGrace):
		return vfs.Errorf(vfs.Busy, "an operation on the served directory is stuck")
	}
}

// drain is called once. Closing may block, too.
func (s *Store) drain() {
	s.host.close()
	s.top.Close()
	close(s.drained)
}

// begin begins one operation that uses the host's descriptors. left ends it.
func (s *Store) begin() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return vfs.At("", vfs.Stale)
	}
	s.inside++
	return nil
}

// kept is that of the host.
func (s *Store) kept(in place, path string, try bool) (reader, error) {
	if err := s.begin(); err != nil {
		return nil, err
	}
	defer s.left()
	return s.host.kept(in, path, try), nil
}

// enter opens the directory at p for one operation. leave ends it. No code of a guest
// runs in between.
func (s *Store) enter(p place) (directory, error) { return s.enterFor(context.Background(), p) }

// enterFor is enter, and does not wait if ctx must not.
func (s *Store) enterFor(ctx context.Context, p place) (directory, error) {
	if err := s.begin(); err != nil {
		return nil, err
	}
	d, err := s.host.enter(p, vfs.IsTrying(ctx))
	if err != nil {
		s.left()
		return nil, explain(err)
	}
	return d, nil
}

func (s *Store) leave(d directory) {
	d.release()
	s.left()
}

func (s *Store) left() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.inside--
	if s.closed && s.inside == 0 {
		go s.drain()
	}
}

func (s *Store) isClosed() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.closed
}
