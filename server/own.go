package server

import (
	"context"
	"runtime/debug"
	"sync"

	"capd/vfs"
)

// own opens stores of one scheme of the host's own. A fault of the opener fails only the mount: a panic and a store
// without a Root are errors.
type own struct {
	scheme string
	opener Opener
	logf   func(format string, args ...any)
}

// open is an [Opener].
func (o own) open(ctx context.Context, u *URL) (_ *Store, err error) {
	defer o.caught(&err)
	s, err := o.opener(ctx, u)
	if err != nil {
		return nil, err
	}
	if s == nil {
		return nil, vfs.Errorf(vfs.Internal, "the opener of %s: returned neither a store nor an error", o.scheme)
	}
	opened := *s
	opened.Close = func() (err error) {
		defer o.caught(&err)
		if s.Close == nil {
			return nil
		}
		return s.Close()
	}
	if opened.Root, opened.Fixed = first(s.Root); opened.Root == nil {
		_ = opened.Close()
		return nil, vfs.Errorf(vfs.Internal, "the opener of %s: returned a store without a Root", o.scheme)
	}
	opened.Fixed = opened.Fixed || s.Fixed
	if s.Detail != nil {
		opened.Detail = func() (text string) {
			var err error
			defer o.caught(&err)
			return s.Detail()
		}
	}
	return &opened, nil
}

// caught makes a panic an error, and logs where it came from.
func (o own) caught(err *error) {
	if p := recover(); p != nil {
		o.logf("capd: a store of %s: panicked: %v\n%s", o.scheme, p, debug.Stack())
		*err = vfs.Errorf(vfs.Internal, "a store of %s: panicked: %v", o.scheme, p)
	}
}

// first returns root, which it has called once already, or nil if root returns none. fixed says that nothing can be
// changed through what root returned.
func first(root func() vfs.Dir) (again func() vfs.Dir, fixed bool) {
	if root == nil {
		return nil, false
	}
	d := root()
	if d == nil {
		return nil, false
	}
	var once sync.Once
	return func() (next vfs.Dir) {
		once.Do(func() { next = d })
		if next == nil {
			next = root()
		}
		return next
	}, vfs.IsImmutable(d)
}
