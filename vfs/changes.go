package vfs

import (
	"context"
	"time"
)

// Teller is a Dir that tells what changes in it and below.
type Teller interface {
	// Changes returns what changed since the cursor of an earlier answer. It needs the right to watch. It answers invalid for
	// what is no cursor.
	Changes(ctx context.Context, q ChangesQuery) (ChangesPage, error)
}

// ChangesQuery asks for changes.
type ChangesQuery struct {
	Cursor []byte        // of the answer before this; empty: from now on
	Wait   time.Duration // how long to wait if there is none; at most [MaxChangesWait]
	Others bool          // leave out what was done through the grant that asks
}

// MaxChangesWait is how long a [Teller] waits at most.
const MaxChangesWait = time.Minute

// ChangesPage is what changed. If Rescan is set, changes may have been missed: whoever lists after this answer, and goes on with
// Cursor, misses nothing from then on.
type ChangesPage struct {
	Events   []Event // oldest first
	Cursor   []byte
	Rescan   bool
	Complete bool // what programs of the host change is told too; otherwise only what is done through capd
}

// Event is one change. One that was made, moved or removed stands for everything in it: there need be no event for what a new
// directory holds.
type Event struct {
	Kind EventKind
	Path string // from the Dir
	From string // of Moved, where it was
	Own  bool   // it was done through the grant that asks
	By   string // the id of the share, below that grant, through which it was done; "" for any other
	AtMs int64
}

// EventKind is what happened.
type EventKind uint8

// The kinds of events.
const (
	Created EventKind = iota // there is something new at Path, perhaps in place of something else
	Changed                  // its content or its attributes
	Removed
	Moved // from From
)

var eventNames = [...]string{"created", "changed", "removed", "moved"}

func (k EventKind) String() string { return eventNames[k] }

// Changes is [Teller].Changes of d. It answers unsupported when d is none.
func Changes(ctx context.Context, d Dir, q ChangesQuery) (ChangesPage, error) {
	if t, ok := d.(Teller); ok {
		return t.Changes(ctx, q)
	}
	return ChangesPage{}, errNoChanges
}

var errNoChanges = Errorf(Unsupported, "what changes here is not told; use changedSince")

// Watcher is a Dir that can tell what changes in it and below, whoever changes it. It is for a host, which tells its guests.
type Watcher interface {
	// Watch calls w.Tell from now on until the Watching is stopped. Closing the Dir does not stop it.
	Watch(ctx context.Context, w Watch) (Watching, error)
}

// Watch says who is told, and how much may be watched.
type Watch struct {
	// Tell is told of changes, in their order. It must not wait, and must not call the Watching. Paths are from the Dir.
	Tell func([]Notice)

	// Count is called with the number of directories that are watched in addition, and with a negative one for those that are
	// not watched any more. After an error they are not watched, and Tell is told [Partly]. It must not wait.
	Count func(directories int) error
}

// Watching is a Watch under way. It is safe for concurrent use.
type Watching interface {
	// Sync returns when everything that happened before it was called has been told. It answers stale when the directory is not
	// where it was any more, or is in other mounts: then nothing is told any more.
	Sync(ctx context.Context) error
	// Stop ends it.
	Stop()
}

// Notice is a change as a [Watcher] tells it. Of a change that capd made itself it may be told too.
type Notice struct {
	Kind       NoticeKind
	Event      EventKind // of a Happened
	Path, From string    // as in Event
	Dir        bool      // a directory is at Path
	Mine       bool      // that was made there through the store
	Last       int64     // when what is at Path last changed, in ns since 1970; 0 if nothing is there
}

// NoticeKind is what a Notice is.
type NoticeKind uint8

// The kinds of notices.
const (
	Happened NoticeKind = iota // Event
	Lost                       // some changes were missed, or will be; see [Watching].Sync
	Partly                     // not all directories can be watched
)

// WatchIn is [Watcher].Watch of d. It answers unsupported when d is none.
func WatchIn(ctx context.Context, d Dir, w Watch) (Watching, error) {
	if o, ok := d.(Watcher); ok {
		return o.Watch(ctx, w)
	}
	return nil, errNoWatch
}

var errNoWatch = Errorf(Unsupported, "this store does not tell what other programs change")

// Unwatched is the Watching of a store that only capd changes.
type Unwatched struct{}

// Sync implements Watching.
func (Unwatched) Sync(ctx context.Context) error { return ctx.Err() }

// Stop implements Watching.
func (Unwatched) Stop() {}
