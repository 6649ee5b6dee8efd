package scope

import (
	"context"
	"io"
	"sync"

	"capd/vfs"
)

// MaxHeavy is how many heavy calls of one connection run at once: such as may
// read many entries or a whole file for one small question. So many looks and so
// many changes do: a change may wait for an approval, and no look waits for it.
const MaxHeavy = 2

// Turns is what the owner of nodes may have (vfs.OwnerOf): a bound on the heavy
// calls that run at once on all connections that hold what it owns, and on the
// listings that wait on all of them. done gives a turn back.
type Turns interface {
	Look(ctx context.Context) (done func(), err error)
	Change(ctx context.Context) (done func(), err error)

	// Keep counts one listing more, until forget. It calls nothing: when there are
	// too many, dropOldest is the drop of the oldest, which counts no more.
	Keep(drop func()) (forget, dropOldest func())
}

// Of returns the scope, on the same connection, of what owner owns.
func (s *Scope) Of(owner any) *Scope {
	t, _ := owner.(Turns)
	return &Scope{s.held, t}
}

// Look waits for a turn to look at much, until ctx ends; done gives it back.
func (s *Scope) Look(ctx context.Context) (done func(), err error) {
	if s.turns == nil {
		return wait(ctx, s.looks)
	}
	return both(ctx, s.looks, s.turns.Look)
}

// Change waits for a turn to change something that may need a file's version;
// done gives it back.
func (s *Scope) Change(ctx context.Context) (done func(), err error) {
	if s.turns == nil {
		return wait(ctx, s.changes)
	}
	return both(ctx, s.changes, s.turns.Change)
}

// both waits for a turn of the connection's, and then for one of the owner's: so
// one connection has no more of them waiting than it may have at once.
func both(ctx context.Context, turns chan struct{}, owner func(context.Context) (func(), error)) (done func(), err error) {
	first, err := wait(ctx, turns)
	if err != nil {
		return nil, err
	}
	second, err := owner(ctx)
	if err != nil {
		first()
		return nil, err
	}
	return func() { second(); first() }, nil
}

// ChangeIf is Change where c needs a version, and no wait otherwise.
func (s *Scope) ChangeIf(ctx context.Context, c vfs.If) (done func(), err error) {
	if c.Is.IsZero() {
		return func() {}, nil
	}
	return s.Change(ctx)
}

func wait(ctx context.Context, turns chan struct{}) (done func(), err error) {
	select {
	case turns <- struct{}{}:
		return sync.OnceFunc(func() { <-turns }), nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// ChangeFrom runs put, a change on the condition c whose content comes from r: in
// a turn as ChangeIf gives it, but not while it waits for r.
func (s *Scope) ChangeFrom(ctx context.Context, c vfs.If, r io.Reader, put func(io.Reader) (vfs.Version, error)) (vfs.Version, error) {
	if c.Is.IsZero() {
		return put(r)
	}
	t := &turn{ctx: ctx, scope: s, r: r}
	defer t.end()
	if err := t.take(); err != nil {
		return vfs.Version{}, err
	}
	return put(t)
}

// turn is a reader that has a turn before its first Read and after its end.
type turn struct {
	ctx   context.Context
	scope *Scope
	r     io.Reader

	mu   sync.Mutex
	done func() // nil while it has none
	over bool
}

func (t *turn) Read(p []byte) (int, error) {
	t.give()
	n, err := t.r.Read(p)
	if err == io.EOF {
		if late := t.take(); late != nil {
			return n, late
		}
	}
	return n, err
}

func (t *turn) take() error {
	done, err := t.scope.Change(t.ctx)
	if err != nil {
		return err
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.over { // a Read that nobody waits for any more
		done()
	} else {
		t.done = done
	}
	return nil
}

func (t *turn) give() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.done != nil {
		t.done()
		t.done = nil
	}
}

func (t *turn) end() {
	t.mu.Lock()
	t.over = true
	t.mu.Unlock()
	t.give()
}
