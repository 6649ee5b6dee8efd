// Package physical serves a directory of the host as a vfs.Dir and nothing
// beside it.
//
// A node is a place, and a directory is a place and an identity. Each operation
// resolves the path from the root anew, compares the identity of the directory
// it arrives at, and then works on one name in it, by descriptor. So a
// directory that was moved, removed and made again, or mounted over is stale or
// crossDevice, never the wrong tree, and a Dir costs no descriptor.
//
// On Linux the kernel keeps the resolution inside the root: openat2(2) with
// RESOLVE_BENEATH, RESOLVE_NO_SYMLINKS and RESOLVE_NO_XDEV. Elsewhere, and on a kernel without it, os.Root does;
// [Store.Confinement] tells the host which.
//
// What a guest changes is atomic against other guests of the same Store.
// Against other programs of the host, whole-file changes are (a Replace, Rename
// or Remove with a condition verifies what it displaced and undoes itself),
// where the file system can exchange names; writes in place are as any program's
// are.
//
// A Replace, and every change of names, is on disk when it has answered, as far as
// the file system knows how and the process may read the directory. What is written
// in place is when [File.Sync] has answered.
package physical

import (
	"context"
	"errors"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"capd/vfs"
)

// Options are what a host may choose; the zero value is right for everybody.
type Options struct {
	ReadOnly       bool // every change answers readOnly, and nothing is written below the directory
	MaxDescriptors int  // directories and files kept open; 0: of all Stores a quarter of the process's limit, at most 4096
	MaxContents    int  // contents held open at once; 0: of each Store a quarter of the limit, at most 4096
	Portable       bool // use os.Root even where the kernel confines
}

// Store is one served directory.
type Store struct {
	top      *os.Root
	host     host
	readOnly bool
	versions versions
	places   places
	staging  staging
	syncs    syncs

	maxContents int64
	contents    atomic.Int64

	mu      sync.Mutex
	inside  int  // operations that use the host's descriptors
	closed  bool // no more of them
	drained chan struct{}
}

// OpenAmbient serves dir with the process's own authority: the one place where
// authority enters. It removes what a process that died left staged in dir. Its
// errors are for the host and name paths.
func OpenAmbient(dir string, o Options) (*Store, error) {
	top, err := os.OpenRoot(dir)
	if err != nil {
		return nil, err
	}
	s := &Store{top: top, readOnly: o.ReadOnly, drained: make(chan struct{})}
	s.staging.s = s
	share := min(4096, max(descriptorLimit()/4, 1))
	s.maxContents = int64(share)
	if o.MaxContents > 0 {
		s.maxContents = int64(o.MaxContents)
	}
	if o.MaxDescriptors > 0 {
		share = o.MaxDescriptors
	}
	if s.host, err = openHost(top, o.Portable, share, o.MaxDescriptors <= 0); err != nil {
		top.Close()
		return nil, err
	}
	if !s.readOnly {
		if d, err := s.enter(place{}); err == nil {
			s.staging.sweep(d)
			s.leave(d)
		}
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

// Root returns the served directory. Closing it closes neither the store nor
// what was opened from it.
func (s *Store) Root() vfs.Dir { return &Dir{node: node{s: s}} }

// Confinement is "kernel" or "best-effort". It is for the host, never a guest.
func (s *Store) Confinement() string { return s.host.confinement() }

// Stats are counts for the host.
type Stats struct {
	Descriptors int // directories and files kept open
	Contents    int // contents held open
}

// Stats counts what the store holds open now.
func (s *Store) Stats() Stats {
	return Stats{Descriptors: s.host.cached(), Contents: int(s.contents.Load())}
}

// closeGrace is how long Close waits for operations in progress.
const closeGrace = 5 * time.Second

// Close ends everything: every node and every open content answers stale. It
// waits for system calls in progress and answers busy when one is stuck; the
// descriptors then go when it ends.
func (s *Store) Close() error {
	err := s.staging.close()
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
		return err
	case <-time.After(closeGrace):
		return errors.Join(err, vfs.Errorf(vfs.Busy, "an operation on the served directory is stuck"))
	}
}

// drain is called once. Closing may block, too.
func (s *Store) drain() {
	s.host.close()
	s.top.Close()
	close(s.drained)
}

// begin begins one operation that uses the host's descriptors; left ends it.
func (s *Store) begin() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return vfs.At("", vfs.Stale)
	}
	s.inside++
	return nil
}

// kept and tryKept are the host's.
func (s *Store) kept(in place, path string) (reader, error) {
	if err := s.begin(); err != nil {
		return nil, err
	}
	defer s.left()
	return s.host.kept(in, path), nil
}

func (s *Store) tryKept(in place, path string) (reader, error) {
	if err := s.begin(); err != nil {
		return nil, err
	}
	defer s.left()
	return s.host.tryKept(in, path)
}

// enter reaches the directory at p for one operation; leave ends it. Nothing of
// a guest's runs between the two.
func (s *Store) enter(p place) (directory, error) {
	if err := s.begin(); err != nil {
		return nil, err
	}
	d, err := s.host.enter(p)
	if err != nil {
		s.left()
		return nil, explain(err)
	}
	return d, nil
}

// enterFor is enter, or the host's tryEnter when ctx is only trying.
func (s *Store) enterFor(ctx context.Context, p place) (directory, error) {
	if !vfs.IsTrying(ctx) {
		return s.enter(p)
	}
	if err := s.begin(); err != nil {
		return nil, err
	}
	d, err := s.host.tryEnter(p)
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
