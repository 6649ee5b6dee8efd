package vfs

import (
	"cmp"
	"context"
	"sync"
	"sync/atomic"

	"capd/meter"
)

// Change answers for a change before it is made: it writes it to a record, or has it
// approved. A membrane adds it to a call with [Call.OnChange]. It is called from one
// goroutine at a time.
type Change interface {
	// Asks notes that the change needs an approval, and why. It answers askDenied when
	// nobody could give one. It is called before the store is; see [Asks].
	Asks(why string) error

	// Stands reports whether the change was approved for now, whatever is there and whatever it writes. Ready then
	// asks nobody. It may be called before Asks; see [Stands].
	Stands() bool

	// Ready is called once, when everything about the change is known and nothing of it
	// shows. It may wait, even for a human; see [Aside]. If s.Late, it may wait only for
	// the disk. finish, which may be nil, waits until what Ready wrote is on disk. After
	// an error of either the change is not made.
	Ready(ctx context.Context, s Staged) (finish func() error, err error)
}

// Staged is what a store is about to put in place.
type Staged struct {
	Grows   Effect        // the most by which the change can grow the store
	Content StagedContent // nil unless a whole file is put in place
	Was     Info          // of a file that is changed, as it is now; the zero Info if there is none, or if the store does not tell
	Keeps   bool          // the store gives what is displaced to the call's [Keep] in Commit
	Late    bool          // the store did not call Ready; this is its Commit
	Bound   *Bound        // nil unless the change needs an approval; the store leaves it nil
	Parts   []Part        // of a change of many paths; nil for any other
}

// StagedContent is the content of a whole file that is staged. It can be used until
// [Change].Ready has returned.
type StagedContent interface {
	Size() int64
	Version() Version // may wait until it is computed
	Open(ctx context.Context) (Content, error)
	Sync(ctx context.Context) error // writes what is staged to disk
}

// Ready says that everything about a change is known. A store calls it before [Commit],
// after every other check, and holds no lock. If s has a Content, Ready syncs it.
//
// If the call has a [Change], Ready asks it, once in a call, and syncs the content
// while the Change writes. After an error the store drops what it has staged and
// returns the error. A store that does not call Ready has its changes answered for in
// Commit.
func Ready(ctx context.Context, s Staged) error {
	if a := callOf(ctx).answers; a != nil {
		return a.ready(ctx, s)
	}
	return s.sync(ctx)
}

// NeedsReady reports whether a [Change] waits for [Ready]. A store that would find out
// only in Commit that a change fails, looks before it calls Ready if NeedsReady is true.
func NeedsReady(ctx context.Context) bool {
	a := callOf(ctx).answers
	return a != nil && !a.begun.Load()
}

// Aside runs wait, which waits for a human. Meanwhile the call gives up what others could
// want: its turn, its place in the line of its object, and whatever its membranes added with [Call.OnAside]. It answers an
// error without running wait if too many calls wait already. After wait it answers ctx's error if ctx has ended, and an
// error if the call does not get back what it gave up; then it must not go on.
func Aside(ctx context.Context, wait func()) error {
	aside := callOf(ctx).aside
	if aside == nil {
		aside = func(wait func()) error { wait(); return nil }
	}
	var lost error
	late := meter.Wait(ctx, func() {
		meter.Pass(ctx)
		lost = aside(wait)
	})
	return cmp.Or(late, lost)
}

// Probe asks the committers of ctx whether a change that grows the store by e could be
// made now. It makes none.
func Probe(ctx context.Context, e Effect) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	commit := callOf(ctx).Commit
	if commit == nil {
		return nil
	}
	asked := false
	_, err := commit(e, func() (Effect, error) {
		asked = true
		return Effect{}, errProbed
	})
	if asked {
		return nil
	}
	return err
}

// errProbed tells committers that nothing was changed.
var errProbed = Errorf(Internal, "this change is only tried")

// OnChange makes in answer for the change of c. A Change that c has already is asked
// before in.
//
// If c is a part of a change that was approved as a whole, it is approved; see [InParts].
func (c *Call) OnChange(in Change) {
	whole := c.inParts && c.answers != nil && c.answers.whole.Load()
	if c.answers != nil {
		in = chained{c.answers, in}
	}
	c.answers = &answering{change: in}
	c.answers.whole.Store(whole)
}

// OnTrial is OnChange for a change that is only tried: Ready answers an error, and t answers for nothing. It is told what
// would be asked, and whoever else answers for the change is asked too.
func (c *Call) OnTrial(t Change) {
	c.OnChange(t)
	c.answers.trial = true
}

// OnAside has [Aside] call give with its wait. give gives up something, runs the wait and
// takes the thing again. It returns an error if that is not possible.
func (c *Call) OnAside(give func(wait func()) error) {
	outer := c.aside
	if outer == nil {
		c.aside = give
		return
	}
	c.aside = func(wait func()) (err error) {
		late := outer(func() { err = give(wait) })
		return cmp.Or(err, late)
	}
}

// answering is the Change of a call and its answer. All parts of the call share it.
type answering struct {
	change Change
	trial  bool        // see Call.OnTrial
	asked  atomic.Bool // it waits for an approval
	whole  atomic.Bool // it was approved with all its parts
	begun  atomic.Bool
	over   atomic.Bool // it was answered for, and what that wrote is on disk
	once   sync.Once
	finish func() error
	err    error
}

var errUnready = Errorf(Internal, "a change was not answered for")

// Asks implements Change.
func (a *answering) Asks(why string) error { return a.change.Asks(why) }

// Stands implements Change.
func (a *answering) Stands() bool { return a.change.Stands() }

// Ready implements Change. It asks the first time. Other parts of the call wait for that
// answer.
func (a *answering) Ready(ctx context.Context, s Staged) (func() error, error) {
	a.once.Do(func() {
		a.begun.Store(true)
		a.err = errUnready // if the Change panics
		s.Bound = callOf(ctx).Bound
		finish, err := a.change.Ready(ctx, s)
		a.whole.Store(err == nil && s.Bound != nil && s.Bound.Parts != nil)
		if finish == nil {
			finish = func() error { return nil }
		}
		a.finish, a.err = sync.OnceValue(finish), err
	})
	return a.finish, a.err
}

// longSum is the size, in bytes, from which computing the version of a content takes so
// long that the content is synced meanwhile.
const longSum = 32 << 10

// ready asks a, and syncs what is staged while a writes.
func (a *answering) ready(ctx context.Context, s Staged) error {
	if a.over.Load() {
		return s.sync(ctx)
	}
	sync := func() error { return s.sync(ctx) }
	long := s.Content != nil && s.Content.Size() > longSum
	if long {
		synced := make(chan error, 1)
		go func() { synced <- s.sync(ctx) }()
		sync = func() error { return <-synced }
	}
	finish, err := a.Ready(ctx, s)
	if err != nil && long {
		_ = sync() // it uses what the caller drops
	}
	if err != nil {
		return err
	}
	late := meter.Rest(ctx, func() {
		err = sync()
		written := finish()
		a.over.Store(written == nil)
		err = cmp.Or(err, written)
	})
	return cmp.Or(err, late)
}

func (s Staged) sync(ctx context.Context) error {
	if s.Content == nil {
		return nil
	}
	return s.Content.Sync(ctx)
}

// chained asks outer and then in.
type chained struct{ outer, in Change }

func (c chained) Asks(why string) error {
	if err := c.outer.Asks(why); err != nil {
		return err
	}
	return c.in.Asks(why)
}

func (c chained) Stands() bool { return c.outer.Stands() && c.in.Stands() }

func (c chained) Ready(ctx context.Context, s Staged) (func() error, error) {
	outer, err := c.outer.Ready(ctx, s)
	if err != nil {
		return nil, err
	}
	in, err := c.in.Ready(ctx, s)
	if err != nil {
		return nil, err
	}
	return func() error {
		err := outer()
		if in != nil {
			err = cmp.Or(err, in())
		}
		return err
	}, nil
}
