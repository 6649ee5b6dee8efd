// Package feed tells the holders of parts of a tree what changes there: exactly, what is changed through the tree's membranes, and
// what other programs change, where a store can watch for that.
//
// Events are kept, within bounds, from the moment that somebody first asks about a directory until nobody has asked about it for
// [Idle]. Whoever comes back later, or too late for what is kept, is told to list again.
package feed

import (
	"context"
	"crypto/aes"
	"crypto/cipher"
	"crypto/rand"
	"encoding/binary"
	"sync"
	"sync/atomic"
	"time"

	"capd/meter"
	"capd/vfs"
	"capd/vfs/diff"
	"capd/vfs/membrane"
)

// The bounds of what is kept.
const (
	maxEvents = 65_536
	maxBytes  = 8 << 20 // of their paths

	pageEvents = 1000
	pageBytes  = 64 << 10
)

// Idle is how long a directory is watched after the last question about it.
const Idle = 10 * time.Minute

// Coalesced is the least time between an event and the answer that has it. What happens meanwhile comes in the same answer.
const Coalesced = 50 * time.Millisecond

// settled is how old an event is at least when it is told. A file system's clock has ticks of up to 10 ms, so a change by another program that comes
// sooner may not be told from it; see Feed.told.
const settled = 20 * time.Millisecond

// Options are what a Feed needs.
type Options struct {
	// Share returns the id of the share whose meter is by, below the grant whose meter is of; "" if it is no such share. Nil knows none.
	Share func(of, by *meter.Meter) string
	// Lives reports whether the grant whose meter is m is held. Nil: it is.
	Lives func(m *meter.Meter) bool
}

// Feed tells what changes in one tree. It implements [membrane.Feed]. It is safe for concurrent use.
type Feed struct {
	root  vfs.Dir
	o     Options
	seal  cipher.AEAD  // of cursors
	asked atomic.Int32 // how many interests there are

	mu        sync.Mutex
	seq       int64 // of the newest event
	first     int64 // of the oldest that is kept; what is older is forgotten
	events    []event
	bytes     int
	interests map[string]*interest // by path
	waiting   waiters
	recent    recent
	timer     *time.Timer // ends interests; nil if there are none
	closed    bool
}

var _ membrane.Feed = (*Feed)(nil)

// event is a change. Paths are from the root of the tree.
type event struct {
	seq        int64
	at         time.Time
	begun      time.Time // when the first of several like it happened
	kind       vfs.EventKind
	path, from string
	by         *meter.Meter // of the capability; nil: of somebody else
}

// New returns a Feed of what changes in the tree root, which the caller closes after the Feed.
func New(root vfs.Dir, o Options) *Feed {
	f := &Feed{root: root, o: o, seal: newSeal(), first: 1, interests: map[string]*interest{}}
	return f
}

func newSeal() cipher.AEAD {
	key := make([]byte, 16)
	_, _ = rand.Read(key) // never fails
	block, err := aes.NewCipher(key)
	if err != nil {
		panic(err) // the key has the right size
	}
	seal, err := cipher.NewGCMWithRandomNonce(block)
	if err != nil {
		panic(err) // the block has the right size
	}
	return seal
}

// Making implements [membrane.Feed].
func (f *Feed) Making(op membrane.Op) (made func(vfs.Effect, error)) {
	begun := f.asked.Load() > 0
	if begun {
		f.mu.Lock()
		f.recent.making(op, 1)
		f.mu.Unlock()
	}
	return func(e vfs.Effect, err error) {
		if !begun && f.asked.Load() == 0 {
			return
		}
		f.mu.Lock()
		defer f.mu.Unlock()
		if err == nil {
			f.made(op, e)
		}
		if begun {
			f.recent.making(op, -1)
			f.release()
		}
	}
}

// release tells what waited for a change through the tree to be over. Needs mu.
func (f *Feed) release() {
	held := f.recent.held
	if len(held) == 0 {
		return
	}
	f.recent.held = nil
	now := time.Now()
	for _, h := range held {
		f.notice(h.in, h.n, now)
	}
}

// made tells of a change through the tree. Needs mu.
func (f *Feed) made(op membrane.Op, e vfs.Effect) {
	ev := event{kind: vfs.Changed, path: op.Path, by: op.By()}
	switch op.Kind {
	case membrane.OpCreate, membrane.OpMkdir, membrane.OpSymlink:
		ev.kind = vfs.Created
	case membrane.OpReplace:
		if e.Nodes > 0 {
			ev.kind = vfs.Created
		}
	case membrane.OpRemove:
		ev.kind = vfs.Removed
	case membrane.OpRename:
		if ev.kind = vfs.Removed; op.To != "" {
			ev.kind, ev.path, ev.from = vfs.Moved, op.To, op.Path
		}
	}
	now := time.Now()
	f.recent.made(ev, now)
	f.add(ev, now)
}

// add adds an event, if somebody may ask for it. Needs mu.
func (f *Feed) add(ev event, now time.Time) {
	defer f.wake(ev)
	if !f.wanted(ev.path) && (ev.from == "" || !f.wanted(ev.from)) {
		return
	}
	f.seq++
	ev.seq, ev.at, ev.begun = f.seq, now, now
	if n := len(f.events); n > 0 && ev.kind == vfs.Changed {
		last := &f.events[n-1]
		if last.kind == ev.kind && last.path == ev.path && last.by == ev.by && now.Sub(last.begun) < Coalesced {
			last.seq, last.at = ev.seq, now
			return
		}
	}
	f.events = append(f.events, ev)
	f.bytes += len(ev.path) + len(ev.from)
	for len(f.events) > maxEvents || f.bytes > maxBytes {
		old := f.events[0]
		f.bytes -= len(old.path) + len(old.from)
		f.events[0] = event{}
		f.events = f.events[1:]
		f.first = old.seq + 1
	}
}

// wanted reports whether path is in a directory that somebody asks about. Needs mu.
func (f *Feed) wanted(path string) bool {
	return f.interests[path] != nil || len(f.above(path)) > 0
}

// wake wakes those who wait for ev, or whose directory was in it and is stale. Needs mu.
func (f *Feed) wake(ev event) {
	f.waiting.wake(ev.path, ev.kind != vfs.Changed)
	if ev.from != "" {
		f.waiting.wake(ev.from, true)
	}
}

// related reports whether one path is at or below the other.
func related(a, b string) bool { return diff.Within(a, b) || diff.Within(b, a) }

// Lost says that something at path, and below, may have changed in a way that is not told.
func (f *Feed) Lost(path string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, in := range f.interests {
		if related(in.path, path) {
			f.lose(in)
		}
	}
}

// lose has everybody who asks about in list again. Needs mu.
func (f *Feed) lose(in *interest) {
	f.since(in)
	f.waiting.wake(in.path, true)
}

// since has in begin now. Whoever asks about it lists, and may see what was made before without an event; so nothing
// counts as told any more. Needs mu.
func (f *Feed) since(in *interest) {
	f.seq++
	in.since = f.seq
	f.recent.forget()
}

// cursorSize is how long a cursor is: a nonce, the sealed number of an event, and a tag.
const cursorSize = 12 + 8 + 16

// cursor returns the cursor after the event seq, for a Dir at path. It shows nothing: how many events there were between two would tell what
// happens elsewhere.
func (f *Feed) cursor(seq int64, path string) []byte {
	return f.seal.Seal(nil, nil, binary.BigEndian.AppendUint64(nil, uint64(seq)), []byte(path))
}

// read returns the event after which cursor is. ok is false if it comes from somewhere else, such as a host that has ended.
func (f *Feed) read(cursor []byte, path string) (seq int64, ok bool, err error) {
	if len(cursor) == 0 {
		return 0, false, nil
	}
	if len(cursor) != cursorSize {
		return 0, false, vfs.Errorf(vfs.Invalid, "this is no cursor; pass the one of the last answer, or none to begin")
	}
	number, err := f.seal.Open(nil, nil, cursor, []byte(path))
	if err != nil {
		return 0, false, nil
	}
	return int64(binary.BigEndian.Uint64(number)), true, nil
}

// Close ends what is watched.
func (f *Feed) Close() {
	f.mu.Lock()
	f.closed = true
	var all []*interest
	for _, in := range f.interests {
		if in.begun { // or begin ends it
			all = append(all, in)
		}
	}
	f.interests = map[string]*interest{}
	if f.timer != nil {
		f.timer.Stop()
	}
	f.mu.Unlock()
	for _, in := range all {
		f.end(in)
	}
}

// sweep ends the interests that nobody has asked about for long, or whose grant has ended.
func (f *Feed) sweep() {
	now := time.Now()
	var over []*interest
	f.mu.Lock()
	for path, in := range f.interests {
		idle := in.users == 0 && now.Sub(in.last) > Idle
		if idle || in.users == 0 && f.o.Lives != nil && in.owner != nil && !f.o.Lives(in.owner) {
			delete(f.interests, path)
			over = append(over, in)
		}
	}
	if f.timer = nil; len(f.interests) > 0 && !f.closed {
		f.timer = time.AfterFunc(sweeps, f.sweep)
	} else {
		f.events, f.bytes, f.first = nil, 0, f.seq+1
	}
	f.mu.Unlock()
	for _, in := range over {
		f.end(in)
	}
}

// sweeps is how often sweep runs.
const sweeps = 30 * time.Second

// end stops what is watched for in, which is no interest any more.
func (f *Feed) end(in *interest) {
	f.asked.Add(-1)
	if w := in.watching; w != nil {
		w.Stop()
	}
	_ = in.count(-int(in.counted.Load())) // never fails
}

// walk opens the directory at path in the tree, for the host itself.
func (f *Feed) walk(ctx context.Context, path string) (vfs.Dir, func(), error) {
	if path == "" {
		return f.root, func() {}, nil
	}
	n, err := vfs.WalkLink(ctx, f.root, path)
	if err != nil {
		return nil, nil, err
	}
	d, err := vfs.AsDir(n)
	if err != nil {
		return nil, nil, err
	}
	return d, func() { d.Close() }, nil
}
