package membrane

import (
	"context"
	"fmt"
	"iter"

	"capd/vfs"
)

// within runs do, which calls the store, inside the tree's bulkhead. With the context
// of [vfs.Trying] it does not enter.
func (s *guardSet) within(ctx context.Context, do func(context.Context) error) error {
	if s.bulkhead == nil || vfs.IsTrying(ctx) {
		return do(ctx)
	}
	return s.bulkhead.Run(ctx, do)
}

// inside is within for an operation. One that waits for a human has no slot meanwhile.
func (s *guardSet) inside(ctx context.Context, do func(context.Context) error) error {
	if s.bulkhead == nil || !vfs.Asked(ctx) {
		return s.within(ctx, do)
	}
	in, err := s.bulkhead.enter(ctx)
	if err != nil {
		return err
	}
	gaveUp := make(chan error, 1)
	held := &slot{first: in, in: in, has: true, giveUp: func(err error) { gaveUp <- err }}
	return apart(gaveUp, func() error {
		defer held.end()
		return do(held.entered(s.bulkhead.noted(vfs.WithCall(ctx, vfs.CallOf(ctx).Unseen()))))
	})
}

// apart runs do and returns its error, or one that comes from gaveUp before: then do, which has given up, goes on to clean up.
func apart(gaveUp <-chan error, do func() error) error {
	done := make(chan error, 1)
	go func() {
		err := vfs.Errorf(vfs.Internal, "it panicked")
		defer func() {
			if p := recover(); p != nil { // only this change fails
				err = vfs.Hide(fmt.Errorf("panic in a change: %v", p))
			}
			done <- err
		}()
		err = do()
	}()
	select {
	case err := <-done:
		return err
	case err := <-gaveUp:
		return err
	}
}

// enter is within for a read, which leaves nothing for later. The caller calls exit.
func (s *guardSet) enter(ctx context.Context) (inside, error) {
	if s.bulkhead == nil || vfs.IsTrying(ctx) {
		return inside{}, nil
	}
	return s.bulkhead.enter(ctx)
}

// maxBatched is how many entries of a listing are read at once. The listing enters the
// bulkhead once for all of them.
const maxBatched = 256

// entries is ListFrom of d. It is inside the tree's bulkhead while the store reads,
// and outside while the consumer works.
func (s *guardSet) entries(ctx context.Context, d vfs.Dir, from string) iter.Seq2[vfs.Entry, error] {
	if s.bulkhead == nil || vfs.IsTrying(ctx) {
		return vfs.ListFrom(ctx, d, from)
	}
	return func(yield func(vfs.Entry, error) bool) {
		in, err := s.bulkhead.enter(ctx)
		if err != nil {
			yield(vfs.Entry{}, err)
			return
		}
		l := pacedListing{ctx: ctx, in: in, yield: yield, more: true}
		defer l.exit()
		for e, err := range vfs.ListFrom(ctx, d, from) {
			if err != nil {
				l.failed = err
				break
			}
			l.read = append(l.read, e)
			if len(l.read) == maxBatched && !l.pass(true) {
				return
			}
		}
		if l.pass(false); l.more && l.failed != nil {
			yield(vfs.Entry{}, l.failed)
		}
	}
}

// listing is a listing that passes through a bulkhead.
type pacedListing struct {
	ctx    context.Context
	in     inside
	out    bool // it is outside
	yield  func(vfs.Entry, error) bool
	more   bool // more entries are wanted
	read   []vfs.Entry
	failed error
}

// pass yields the entries read so far, outside, and then enters again. It reports
// whether to go on.
func (l *pacedListing) pass(again bool) bool {
	l.exit()
	for _, e := range l.read {
		if l.more = l.yield(e, nil); !l.more {
			return false
		}
	}
	l.read = l.read[:0]
	if again {
		in, err := l.in.b.enter(l.ctx)
		if err != nil {
			l.more = l.yield(vfs.Entry{}, err)
			return false
		}
		l.in, l.out = in, false
	}
	return again
}

func (l *pacedListing) exit() {
	if !l.out {
		l.out = true
		l.in.exit()
	}
}
