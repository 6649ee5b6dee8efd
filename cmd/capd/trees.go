package main

import (
	"cmp"
	"context"
	"errors"
	"sync"

	"capd/client"
	"capd/vfs"
	"capd/vfs/copier"
)

// uploads is how many files are copied or removed at once, over one connection.
const uploads = 16

// leftovers are what a command on a whole tree could not do, but did not stop for.
type leftovers struct {
	mu     sync.Mutex
	missed client.Unlisted
}

// fatal returns an error that the rest would meet too, or nil.
func fatal(at string, err error) error {
	switch code := vfs.CodeOf(err); code {
	case vfs.Revoked, vfs.Expired, vfs.Quota, vfs.Internal, vfs.Stale:
		return vfs.At(at, err)
	}
	if errors.Is(err, context.Canceled) {
		return err
	}
	return nil
}

// add notes what failed at a path. It returns an error that the rest would meet too.
func (l *leftovers) add(at string, err error) error {
	if err := fatal(at, err); err != nil {
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.missed.Errors) == 1000 {
		l.missed.More++
	} else {
		l.missed.Errors = append(l.missed.Errors, vfs.At(at, err))
	}
	return nil
}

// unread is add for a copy.
func (l *leftovers) unread(u copier.Unread) error { return l.add(u.Path, u.Err) }

// err returns what was left, or nil.
func (l *leftovers) err() error {
	if len(l.missed.Errors) == 0 {
		return nil
	}
	return &l.missed
}

// copyTree copies what is in from to the directory to, and shows how far it is. Of from it copies only what was listed, or everything if
// only is nil.
func copyTree(e *env, from, to vfs.Dir, only *copier.Listing, verb string) error {
	p := newProgress(e, nil, verb)
	defer p.end()
	var left leftovers
	sink := copier.Into(to, left.unread)
	if only != nil {
		sink = only.Only(sink)
	}
	err := copier.Copy(e, from, sink, copier.Options{
		Workers: uploads, Skip: left.unread, Link: copier.Within(from),
		Progress: func(done copier.Progress) { p.count(done.Entries(), done.Bytes) },
	})
	return cmp.Or(err, left.err())
}
