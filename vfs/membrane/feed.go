package membrane

import (
	"context"
	"sync/atomic"

	"capd/vfs"
)

// Feed tells those who hold a part of a tree what changes in it. A guard has it.
type Feed interface {
	// Changes is [vfs.Teller].Changes for a holder.
	Changes(ctx context.Context, at Holder, q vfs.ChangesQuery) (vfs.ChangesPage, error)

	// Making is told of each change just before it shows, and made just after that: by how much it grew the store, or that it was not made.
	// Paths are from the root of the tree. Neither may wait.
	Making(op Op) (made func(e vfs.Effect, err error))
}

// made tells the feed of a change.
func (s *guardSet) made(op Op, account func(vfs.Effect) vfs.Effect) vfs.Committer {
	return func(_ vfs.Effect, change func() (vfs.Effect, error)) (vfs.Effect, error) {
		made := s.feed.Making(op)
		e, err := change()
		grew := e
		if account != nil && err == nil {
			grew = account(e)
		}
		made(grew, err)
		return e, err
	}
}

// unseen says of the views of a staged directory whether it is still out of sight.
type unseen struct{ over atomic.Bool }

func (u *unseen) is() bool { return u != nil && !u.over.Load() }

// Changes implements [vfs.Teller].
func (v *dirView) Changes(ctx context.Context, q vfs.ChangesQuery) (page vfs.ChangesPage, err error) {
	if err := v.may(ctx, noWatch); err != nil {
		return page, err
	}
	if v.guards.feed == nil {
		return page, vfs.Errorf(vfs.Unsupported, "this host does not tell what changes here; use changedSince")
	}
	waiting, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer OnRevoke(v, cancel)()
	page, err = v.guards.feed.Changes(waiting, Holder{Dir: v, By: v.base.meter, Path: v.path, v: v}, q)
	if _, stale := v.stat(ctx); stale != nil {
		err = stale
	}
	if late := v.may(ctx, noWatch); late != nil {
		err = late
	}
	if err != nil {
		return vfs.ChangesPage{}, err
	}
	v.note(OpList)
	return page, nil
}

// Watch implements [vfs.Watcher]. What guards withhold is not told, nor what a mount covers.
func (v *dirView) Watch(ctx context.Context, w vfs.Watch) (got vfs.Watching, err error) {
	if err := v.may(ctx, noWatch); err != nil {
		return nil, err
	}
	own, err := v.derived(v.base, v.mask) // v may be closed before the Watching is stopped
	if err != nil {
		return nil, err
	}
	at := Holder{Path: v.path, v: own.(*dirView)}
	shows := func(path string) bool { return at.MayWatch(context.Background(), path) == nil }
	tell := w.Tell
	w.Tell = func(all []vfs.Notice) {
		var told []vfs.Notice
		for _, n := range all {
			if n = shown(n, shows); n.Kind != vfs.Happened || n.Path != "" {
				told = append(told, n)
			}
		}
		if len(told) > 0 {
			tell(told)
		}
	}
	err = v.guards.within(ctx, func(ctx context.Context) error {
		got, err = vfs.WatchIn(ctx, v.dir, w)
		return err
	})
	if err != nil {
		own.Close()
		return nil, err
	}
	return guardedWatching{got, own.(*dirView)}, nil
}

// shown returns what is left of n for whom only some paths are shown: a move from or to another is a creation or a removal. Its Path is empty if
// that is nothing.
func shown(n vfs.Notice, shows func(path string) bool) vfs.Notice {
	if n.Kind != vfs.Happened {
		return n
	}
	to, from := n.Path == "" || shows(n.Path), n.Event == vfs.Moved && shows(n.From)
	switch {
	case to && n.Event == vfs.Moved && !from:
		n.Event, n.From = vfs.Created, ""
	case !to && from:
		n.Event, n.Path, n.From, n.Last = vfs.Removed, n.From, "", 0
	case !to:
		n.Path = ""
	}
	return n
}

// guardedWatching waits inside the bulkhead.
type guardedWatching struct {
	vfs.Watching
	in *dirView
}

// Sync implements [vfs.Watching].
func (w guardedWatching) Sync(ctx context.Context) error {
	return w.in.guards.within(ctx, w.Watching.Sync)
}

// Stop implements [vfs.Watching].
func (w guardedWatching) Stop() {
	w.Watching.Stop()
	w.in.Close()
}
