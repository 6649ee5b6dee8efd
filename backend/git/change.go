package git

import (
	"context"
	"errors"
	"time"

	"capd/vfs"
)

// step is a change that a check found possible: by how much it grows the tree, exactly,
// and how to make it.
type step struct {
	grows vfs.Effect
	apply func() error // a failure changes nothing, except a write that fails midway
}

// need is the error of a check that needs something read first, which takes too long
// under Store.mu. get is called once.
type need struct{ get func(context.Context) error }

func (*need) Error() string { return "something has to be read first" }

var (
	errSubmodule = vfs.Errorf(vfs.ReadOnly, "nothing can be changed in this directory, and it stays where it is")
	errTooLong   = vfs.Errorf(vfs.Limit, "a file here may be at most %d GiB long", maxFile>>30)
)

// change plans a change and makes it inside vfs.Commit. No lock is held while a
// committer runs.
//
// check looks at the tree under s.mu and must not change it. It runs for the plan, and
// again for the change, since others may change the tree in between. If the plan then
// declared too little, or something must be read, change starts again. tries counts
// from 0 how often that happened.
func (s *Store) change(ctx context.Context, check func(tries int) (step, error)) error {
	for tries := 0; ; tries++ {
		plan, err := s.plan(ctx, func() (step, error) { return check(tries) })
		if err != nil {
			return err
		}
		again, missing := false, (*need)(nil)
		err = vfs.Commit(ctx, plan.grows, func() (vfs.Effect, error) {
			s.mu.Lock()
			defer s.mu.Unlock()
			if s.closed {
				return vfs.Effect{}, vfs.Stale
			}
			now, err := check(tries)
			if n, ok := errors.AsType[*need](err); ok {
				again, missing, err = true, n, vfs.Busy
			}
			if err == nil && (now.grows.Bytes > plan.grows.Bytes || now.grows.Nodes > plan.grows.Nodes) {
				again, err = true, vfs.Busy
			}
			if err == nil {
				err = now.apply()
			}
			if err != nil {
				return vfs.Effect{}, err
			}
			return now.grows, nil
		})
		if missing != nil {
			if err := missing.get(ctx); err != nil {
				return err
			}
		}
		if !again {
			return err
		}
	}
}

// plan returns the result of check. It reads what check needs.
func (s *Store) plan(ctx context.Context, check func() (step, error)) (step, error) {
	if !s.writable {
		return step{}, vfs.ReadOnly
	}
	for {
		if err := s.look(ctx); err != nil {
			return step{}, err
		}
		plan, err := check()
		s.mu.RUnlock()
		n, ok := errors.AsType[*need](err)
		if !ok {
			return plan, err
		}
		if err := n.get(ctx); err != nil {
			return step{}, err
		}
	}
}

// versionTries is how often other changes may overtake a conditional change. After that
// the version is computed under the lock, where nothing can. For a file longer than
// sumLocked that takes too long, and the answer is busy.
const (
	versionTries = 4
	sumLocked    = 1 << 20
)

// meets answers conflict when c does not hold for it, which is a file or nil. Needs
// s.mu for reading.
func (s *Store) meets(c vfs.If, it *item, tries int) error {
	if it == nil || c.Is.IsZero() {
		return c.Check(it != nil, vfs.Version{})
	}
	if it.data == nil {
		v, ok := s.blobs.known(it.id)
		if !ok {
			return &need{func(ctx context.Context) error { _, err := s.blobs.version(ctx, it.id); return err }}
		}
		return c.Check(true, v)
	}
	data := it.data
	v := data.version.Load()
	switch {
	case v != nil:
	case tries < versionTries:
		data.frozen.Store(true)
		held := data.hold()
		return &need{func(ctx context.Context) error { defer held.release(); _, err := held.sum(ctx); return err }}
	case data.size > sumLocked:
		return vfs.Errorf(vfs.Busy, "it keeps being written; try again later")
	default:
		sum, err := data.sum(context.Background())
		if err != nil {
			return err
		}
		v = &sum
	}
	return c.Check(true, *v)
}

// conditional checks a condition on a node to be removed or moved. Only a file may have
// one. Needs s.mu for reading.
func (s *Store) conditional(c vfs.If, it *item, tries int) error {
	if it == nil || it.kind() == vfs.FileKind {
		return s.meets(c, it, tries)
	}
	if !c.IsZero() {
		return vfs.ErrNoVersion
	}
	return nil
}

// size returns a file's size in bytes. Needs s.mu for reading.
func (s *Store) size(it *item) (int64, error) {
	if it.data != nil {
		return it.data.size, nil
	}
	return s.blobs.size(it.id)
}

// removal returns by how much the tree grows when a node is removed, which is below
// zero. Needs s.mu for reading.
func (s *Store) removal(it *item) (vfs.Effect, error) {
	e := vfs.Effect{Nodes: -1}
	if it.kind() != vfs.FileKind {
		return e, nil
	}
	size, err := s.size(it)
	e.Bytes = -size
	return e, err
}

func nowMs() int64 { return time.Now().UnixMilli() }
