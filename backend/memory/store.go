// Package memory keeps a tree in memory, with limits on bytes and nodes. The tree is
// lost when the process ends.
//
// A full store answers quota. Beside its tree a store holds content that Replace is
// staging, and old content that readers have open.
//
// All grants together may stage twice Limits.Bytes. Of that, each grant may stage at most
// as much as is left free, so that it cannot keep the others from writing. More answers
// busy. A grant that has more old content open than Limits.Bytes can open and write nothing
// until it closes some; that answers busy, too. So one grant alone never makes a store hold
// more than four times Limits.Bytes.
package memory

import (
	"context"
	"errors"
	"math"
	"sync"
	"time"

	"capd/meter"
	"capd/vfs"
)

// Limits bounds a store. A field that is 0 or less has its default.
type Limits struct {
	Bytes int64 // of file content; 64 MiB by default
	Nodes int64 // files, directories and links below the root; 65,536 by default
}

// The default limits.
const (
	DefaultBytes = 64 << 20
	DefaultNodes = 1 << 16
)

// Store is a tree in memory. Its methods are for the host; a guest only gets
// [Store.Root]. They may be called from several goroutines at once.
type Store struct {
	limits Limits
	root   *inode

	// mu guards the tree and every blob that is not frozen. Nothing that may block is
	// called under it: neither Replace's reader nor vfs.Commit.
	mu   sync.RWMutex
	used vfs.Effect // size of the tree
	held holdings
}

// New returns an empty store.
func New(limits Limits) *Store {
	if limits.Bytes <= 0 {
		limits.Bytes = DefaultBytes
	}
	if limits.Nodes <= 0 {
		limits.Nodes = DefaultNodes
	}
	return &Store{limits: limits, root: newInode(vfs.DirKind), held: holdings{limit: min(limits.Bytes, math.MaxInt64/4)}}
}

// Root returns the whole tree. Each call returns a new reference.
func (s *Store) Root() vfs.Dir { return &dir{at: &place{store: s, node: s.root}} }

// Usage returns the bytes of file content and the number of files, directories
// and links in the tree.
func (s *Store) Usage() (bytes, nodes int64) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.used.Bytes, s.used.Nodes
}

// Symlink makes a link at path, a slash-separated path below the root. Its parent must
// exist. Any target is stored, even one that [vfs.Symlink] would refuse. It answers
// exists, notFound, notDir, invalid and limit.
func (s *Store) Symlink(ctx context.Context, path, target string) error {
	if len(target) > vfs.MaxPath {
		return vfs.Errorf(vfs.Limit, "a link's target is longer than %d bytes", vfs.MaxPath)
	}
	in, name, _, err := vfs.WalkParent(ctx, s.Root(), path)
	if err != nil {
		return err
	}
	return in.(*dir).link(ctx, name, target)
}

// look locks s.mu to read the tree. A change holds it while it copies memory, so with
// vfs.Trying look does not wait for it.
func (s *Store) look(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if !vfs.IsTrying(ctx) {
		s.mu.RLock()
	} else if !s.mu.TryRLock() {
		return vfs.ErrWouldBlock
	}
	return nil
}

// step is a change that a check found possible: by how much it grows the tree, exactly,
// the new bytes of content it needs, and how to make it.
type step struct {
	grows   vfs.Effect
	was     vfs.Info          // of a file that is changed
	content vfs.StagedContent // what is staged; nil unless a whole file is put
	needs   bool              // it stores new content, or copies old content to write to it
	apply   func()            // must not fail
}

// unknownVersion is the error of a check that needs a version not computed yet.
type unknownVersion struct{ blob *blob }

func (*unknownVersion) Error() string { return "the version is not known yet" }

// change plans a change and makes it inside vfs.Commit. No lock is held while a
// committer runs.
//
// check looks at the tree under s.mu and must not change it. It runs for the plan, and
// again for the change, since others may change the tree in between. If the plan then
// declared too little, or a condition needs an unknown version, change starts again.
// tries counts from 0 how often that happened.
func (s *Store) change(ctx context.Context, check func(tries int) (step, error)) error {
	for tries := 0; ; tries++ {
		foresee := check
		if vfs.NeedsReady(ctx) {
			foresee = s.fitting(ctx, check)
		}
		plan, now, err := s.plan(ctx, tries, foresee)
		if err == nil {
			err = vfs.Ready(ctx, vfs.Staged{Grows: plan.grows, Content: plan.content, Was: plan.was})
		}
		if err != nil {
			return err
		}
		tries = now
		again := false
		err = vfs.Commit(ctx, plan.grows, func() (vfs.Effect, error) {
			s.mu.Lock()
			defer s.mu.Unlock()
			now, err := check(tries)
			if _, ok := errors.AsType[*unknownVersion](err); ok {
				again = true
			}
			if err == nil && (now.grows.Bytes > plan.grows.Bytes || now.grows.Nodes > plan.grows.Nodes) {
				again, err = true, vfs.Busy
			}
			if err == nil {
				err = s.room(ctx, now)
			}
			if err != nil {
				return vfs.Effect{}, err
			}
			now.apply()
			s.used.Bytes += now.grows.Bytes
			s.used.Nodes += now.grows.Nodes
			return now.grows, nil
		})
		if !again {
			return err
		}
	}
}

// room answers quota when the tree is too full for st, and busy when its caller has too
// much open. Needs s.mu.
func (s *Store) room(ctx context.Context, st step) error {
	switch {
	case st.grows.Bytes > 0 && st.grows.Bytes > s.limits.Bytes-s.used.Bytes:
		return s.full()
	case st.grows.Nodes > 0 && st.grows.Nodes > s.limits.Nodes-s.used.Nodes:
		return vfs.Errorf(vfs.Quota, "this store is full: it holds at most %d files, directories and links; remove some", s.limits.Nodes)
	case st.needs && s.held.full(meter.Of(ctx)):
		return errHeld
	}
	return nil
}

func (s *Store) full() error {
	return vfs.Errorf(vfs.Quota, "this store is full: it holds at most %d bytes; remove something", s.limits.Bytes)
}

var (
	errStaged = vfs.Errorf(vfs.Busy, "the whole-file writes in progress here are too large together; let some end, or try again")
	errHeld   = vfs.Errorf(vfs.Busy, "too many replaced contents are still open here; close some, or try again")
)

// versionTries is how often other changes may overtake a conditional change. After that
// the version is computed under the lock, where nothing can. For a file longer than
// sumLocked that takes too long, and the answer is busy.
const (
	versionTries = 4
	sumLocked    = 1 << 20
)

// meets answers conflict when c does not hold for n, a file or nil. It answers busy for
// a large file that keeps changing. Needs s.mu.
func meets(c vfs.If, n *inode, tries int) error {
	if n == nil || c.Is.IsZero() {
		return c.Check(n != nil, vfs.Version{})
	}
	b := n.data
	v := b.version.Load()
	if v == nil && tries < versionTries {
		b.frozen.Store(true)
		return &unknownVersion{b}
	}
	if v == nil && b.size > sumLocked {
		return vfs.Errorf(vfs.Busy, "it keeps being written; try again later")
	}
	if v == nil {
		sum, err := b.sum(context.Background())
		if err != nil {
			return err
		}
		v = &sum
	}
	return c.Check(true, *v)
}

func nowMs() int64 { return time.Now().UnixMilli() }
