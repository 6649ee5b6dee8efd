package feed

import (
	"context"
	"sync/atomic"
	"time"

	"capd/meter"
	"capd/vfs"
)

// interest is a directory that somebody asks about.
type interest struct {
	f     *Feed
	path  string
	owner *meter.Meter // pays for what is watched; nil for nobody

	watching vfs.Watching // nil if other programs are not watched; set before ready is closed
	counted  atomic.Int64 // directories that owner pays for
	ready    chan struct{}
	err      error // why it was not made

	// Feed.mu guards these.
	begun    bool  // it was made, or failed
	since    int64 // what was changed until then may have been missed
	complete bool  // other programs are watched everywhere
	users    int   // calls under way
	last     time.Time
}

// enter returns the interest in the directory at path, and has it watched if it is not. leave gives it back.
func (f *Feed) enter(ctx context.Context, path string, by *meter.Meter) (*interest, error) {
	for {
		in, mine, err := f.join(path, by)
		if err != nil {
			return nil, err
		}
		if mine {
			f.begin(ctx, in)
		}
		select {
		case <-in.ready:
		case <-ctx.Done():
			f.leave(in)
			return nil, context.Cause(ctx)
		}
		switch {
		case in.err == nil:
			return in, nil
		case mine || ctx.Err() != nil:
			f.leave(in)
			return nil, in.err
		}
		f.leave(in) // another call has failed, perhaps because it was cancelled
	}
}

// join returns the interest at path. mine says that it is new, and the caller begins it.
func (f *Feed) join(path string, by *meter.Meter) (in *interest, mine bool, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.closed {
		return nil, false, vfs.Stale
	}
	if in = f.interests[path]; in == nil {
		mine = true
		in = &interest{f: f, path: path, owner: by, ready: make(chan struct{}), complete: true}
		f.interests[path] = in
		f.asked.Add(1)
		if f.timer == nil {
			f.timer = time.AfterFunc(sweeps, f.sweep)
		}
	}
	in.users++
	return in, mine, nil
}

func (f *Feed) leave(in *interest) {
	f.mu.Lock()
	defer f.mu.Unlock()
	in.users--
	in.last = time.Now()
}

// begin watches for in.
func (f *Feed) begin(ctx context.Context, in *interest) {
	defer close(in.ready)
	err := in.watch(ctx)
	f.mu.Lock()
	if vfs.CodeOf(err) == vfs.Unsupported {
		in.complete, err = false, nil
	}
	f.since(in)
	if err == nil && f.closed {
		err = vfs.Stale
	}
	in.begun, in.err = true, err
	if err != nil && f.interests[in.path] == in {
		delete(f.interests, in.path)
	}
	f.mu.Unlock()
	if err != nil {
		f.end(in)
	}
}

// watch has the directory watched. It answers unsupported where other programs cannot be.
func (in *interest) watch(ctx context.Context) error {
	if err := in.count(1); err != nil { // for the interest itself, whatever is watched
		return vfs.Errorf(vfs.CodeOf(err), "%v", err)
	}
	d, release, err := in.f.walk(ctx, in.path)
	if err != nil {
		return err
	}
	defer release()
	in.watching, err = vfs.WatchIn(ctx, d, vfs.Watch{Tell: in.tell, Count: in.count})
	return err
}

// count counts directories that are watched.
func (in *interest) count(n int) error {
	if in.owner == nil || n == 0 {
		return nil
	}
	if n > 0 {
		if err := in.owner.Take(meter.Watches, int64(n)); err != nil {
			return err
		}
	} else {
		in.owner.Give(meter.Watches, int64(-n))
	}
	in.counted.Add(int64(n))
	return nil
}

// tell is told of changes by a store.
func (in *interest) tell(all []vfs.Notice) {
	f := in.f
	now := time.Now()
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.interests[in.path] != in {
		return
	}
	for _, n := range all {
		switch n.Kind {
		case vfs.Lost:
			f.lose(in)
		case vfs.Partly:
			in.complete = false
			f.lose(in)
		default:
			n.Path = vfs.Join(in.path, n.Path)
			if n.Event == vfs.Moved {
				n.From = vfs.Join(in.path, n.From)
			}
			f.notice(in, n, now)
		}
	}
}

// notice adds what a store has told for in, unless it was told already. Needs mu.
func (f *Feed) notice(in *interest, n vfs.Notice, now time.Time) {
	switch {
	case f.covered(in):
	case f.recent.waits(n) && len(f.recent.held) < maxRecent: // else it may be told twice
		f.recent.held = append(f.recent.held, held{in, n})
	case !f.recent.told(n):
		if n.Event == vfs.Moved && f.recent.remade(n.From) {
			f.add(event{kind: vfs.Created, path: n.From}, now)
			n.Event, n.From = vfs.Created, ""
		}
		if n.Event == vfs.Removed && f.recent.remade(n.Path) {
			n.Event = vfs.Created
		}
		f.recent.happened(n.Event, n.Path, n.From, now)
		f.add(event{kind: n.Event, path: n.Path, from: n.From}, now)
	}
}

// covered reports whether a directory above that of in is watched, too. What happens is told from there. Needs mu.
func (f *Feed) covered(in *interest) bool {
	for _, other := range f.above(in.path) {
		if other.complete && other.since != 0 && other.err == nil {
			return true
		}
	}
	return false
}

// sync returns when everything that happened before it was called is among the events.
func (f *Feed) sync(ctx context.Context, in *interest) error {
	for _, w := range f.watchings(in.path) {
		switch err := w.Sync(ctx); vfs.CodeOf(err) {
		case "":
		case vfs.Stale:
			return vfs.Stale
		default:
			return err
		}
	}
	return nil
}

// watchings returns what watches the directory at path.
func (f *Feed) watchings(path string) (all []vfs.Watching) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, in := range append(f.above(path), f.interests[path]) {
		if in == nil {
			continue
		}
		select {
		case <-in.ready:
			if in.watching != nil {
				all = append(all, in.watching)
			}
		default:
		}
	}
	return all
}

// renew ends in, which does not tell any more. The next call begins again.
func (f *Feed) renew(in *interest) {
	f.mu.Lock()
	mine := f.interests[in.path] == in
	if mine {
		delete(f.interests, in.path)
	}
	f.mu.Unlock()
	if mine {
		f.end(in)
	}
}
