package vat

import (
	"context"
	"slices"
	"sync"

	"capd/meter"
)

// An answer is the outcome of one call: of a question that was sent, of a call that came in, or of one that
// never leaves this process.
type answer struct {
	request *request
	conn    *Conn  // for a call that came in: the connection to return on
	id      uint32 // and the question's number there
	table   answerEntry
	ran     *incoming // the memory that a is part of, once the call has run on the reader

	mu       sync.Mutex
	users    int // who may still ask: Answer, the peer, promises. At 0 the call is cancelled, or its results are freed.
	done     bool
	plain    bool     // for a question: it was answered with plain results and is in no table any more
	res      *message // when done: the results, while somebody may ask for them; nil after a failure
	exc      *Exception
	wait     chan struct{} // closed when done; made when somebody waits
	promises []*promise    // made of parts of the outcome; some may be about to leave
	first    [1]*promise   // memory for the first of promises
	called   bool          // calls were sent on a promise that has left
	question *question     // set when the call has gone out: pipelined calls may follow it
	then     []func()      // to call when done
	losses   []lossAt      // of calls on parts of it, until done

	q question
}

// complete makes the outcome known. Only the first call has an effect. It takes over res.
func (a *answer) complete(res *message, exc *Exception) { a.completeFrom(res, exc, nil) }

// completeFrom is complete for the outcome of the question q, which may be nil. A promise made of the outcome may
// need an embargo if calls were sent on it.
func (a *answer) completeFrom(res *message, exc *Exception, q *question) {
	a.mu.Lock()
	if a.done {
		a.mu.Unlock()
		res.unref()
		return
	}
	a.done, a.res, a.exc = true, res, exc
	a.question = nil
	var few [4]*promise
	live := a.living(few[:0])
	wait, then, conn, lost := a.wait, a.then, a.conn, a.losses
	a.then, a.losses = nil, nil
	more := len(live) > 0 || len(lost) > 0 || len(then) > 0 || conn != nil || a.users == 0
	if more {
		a.users++ // until the end of this function
	}
	a.mu.Unlock() // if there is no more to do, users that do not wait may have finished with a from here on

	// Resolve the promises before the Return is sent: the peer may answer it with a Disembargo, and by then
	// the queued calls must be on their way.
	for _, l := range lost {
		a.passLoss(l)
	}
	for _, p := range live {
		p.resolve(a.pick(p.path), q)
		p.release()
	}
	if conn != nil {
		conn.sendReturn(a)
	}
	if wait != nil {
		var from *Conn
		if q != nil {
			from = q.conn
		}
		close(wait)
		if from != nil {
			from.woken.Add(1)
			from.awaited.Add(1)
		}
	}
	if !more {
		return
	}
	for _, f := range then {
		f()
	}
	a.drop()
}

// living appends the promises made of a that are in use, and adds a reference to each for the caller. Called
// with a.mu held.
func (a *answer) living(list []*promise) []*promise {
	for _, p := range a.promises {
		if p.tryRetain() {
			list = append(list, p)
		}
	}
	return list
}

// pick returns the capability at path in the known outcome. The reference is the caller's.
func (a *answer) pick(path []uint16) target {
	a.mu.Lock()
	res, exc := a.res, a.exc
	if res != nil {
		res.ref()
	}
	a.mu.Unlock()
	if res == nil {
		if exc == nil {
			exc = ErrNotCap
		}
		return broken{exc}
	}
	defer res.unref()
	c, err := res.walk(path)
	if err != nil {
		return broken{asException(ErrNotCap)}
	}
	if c == nil {
		return broken{ErrNotCap}
	}
	return c.use()
}

// at returns the capability at path in the outcome, or a promise if the outcome is not known yet. The
// reference is the caller's.
func (a *answer) at(path []uint16) target {
	if len(path) > maxPath {
		return broken{limitf("a pipelined path of %d steps", len(path))}
	}
	a.mu.Lock()
	called := a.called // the order of earlier calls still matters
	for _, p := range a.promises {
		if slices.Equal(p.path, path) {
			if p.tryRetain() {
				a.mu.Unlock()
				return p
			}
			called = called || p.called.Load()
		}
	}
	if a.done {
		a.mu.Unlock()
		return a.pick(path)
	}
	if len(a.promises) >= maxPromises {
		a.mu.Unlock()
		return broken{limitf("%d pipelined paths of one call", maxPromises)}
	}
	p := newPromise()
	p.ans, p.path = a, append(p.few[:0], path...)
	a.users++
	if a.question != nil {
		p.out = pipe{a.question, p.path}
		p.dst = &p.out
	}
	if called {
		p.called.Store(true)
	}
	if a.promises == nil {
		a.promises = a.first[:0]
	}
	a.promises = append(a.promises, p)
	a.mu.Unlock()
	return p
}

// leave gives up the use of a by the promise p, which nobody uses any more, before the outcome is known. It
// keeps only whether calls were sent on p, so that paths that come and go do not add up.
func (a *answer) leave(p *promise) {
	a.mu.Lock()
	if i := slices.Index(a.promises, p); i >= 0 {
		a.called = a.called || p.called.Load()
		a.promises = slices.Delete(a.promises, i, i+1)
		switch n := len(a.promises); {
		case n == 0:
			a.promises = nil
		case cap(a.promises) > 4*n+8:
			a.promises = slices.Clone(a.promises)
		}
	}
	a.mu.Unlock()
	a.drop()
}

// sent records that the call went out as q, so that pipelined calls may follow it. It reports whether
// somebody already waits for the outcome.
func (a *answer) sent(q *question) (awaited bool) {
	a.mu.Lock()
	if a.done {
		a.mu.Unlock()
		return false
	}
	a.question = q
	awaited = a.wait != nil
	var few [4]*promise
	live := a.living(few[:0])
	a.mu.Unlock()
	for _, p := range live {
		p.redirect(&pipe{q, p.path}, false)
		p.release()
	}
	return awaited
}

func (a *answer) use() {
	a.mu.Lock()
	a.users++
	a.mu.Unlock()
}

// drop gives up one use. After the last use nobody can ask any more: the results are freed, or the call is
// cancelled. It reports whether this was the last use of a call that is done.
func (a *answer) drop() bool {
	a.mu.Lock()
	a.users--
	if a.users > 0 {
		a.mu.Unlock()
		return false
	}
	if a.done {
		res := a.res
		a.res = nil
		a.mu.Unlock()
		res.unref()
		return true
	}
	q := a.question
	a.mu.Unlock()
	if a.request != nil {
		a.request.abandon()
	}
	if q != nil {
		q.conn.abandon(q)
	}
	return false
}

// take takes the results away once nobody can use them.
func (a *answer) take() *message {
	a.mu.Lock()
	defer a.mu.Unlock()
	res := a.res
	a.res = nil
	return res
}

// replace turns a known outcome into a failure, because its results could not be sent.
func (a *answer) replace(exc *Exception) {
	a.mu.Lock()
	a.exc = exc
	a.mu.Unlock()
}

// outcome returns the results, with a reference for the caller, or the failure. The call must be done.
func (a *answer) outcome() (*message, *Exception) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.res != nil {
		return a.res.ref(), nil
	}
	if a.exc == nil {
		return nil, ErrReleased
	}
	return nil, a.exc
}

// failure reports whether the outcome is known, and returns the failure if it is one.
func (a *answer) failure() (done bool, exc *Exception) {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.done, a.exc
}

// whenDone calls f once the outcome is known.
func (a *answer) whenDone(f func()) {
	a.mu.Lock()
	if !a.done {
		a.then = append(a.then, f)
		a.mu.Unlock()
		return
	}
	a.mu.Unlock()
	f()
}

// await waits until the outcome is known or ctx ends.
func (a *answer) await(ctx context.Context) error {
	a.mu.Lock()
	if a.done {
		a.mu.Unlock()
		return nil
	}
	if q := a.question; q != nil {
		a.mu.Unlock()
		q.conn.outbox.flushUrgent()
		if q.conn.reader.role.Load() == unread && ctx.Err() == nil {
			q.conn.reader.lead(a)
		}
		a.mu.Lock()
		if a.done {
			a.mu.Unlock()
			return nil
		}
	}
	if a.wait == nil {
		a.wait = make(chan struct{})
	}
	wait := a.wait
	a.mu.Unlock()
	done := ctx.Done()
	if done == nil {
		<-wait
		return nil
	}
	if t := meter.TurnOf(ctx); t != nil { // a handler waits for another call
		return awaitAway(ctx, t, wait)
	}
	select {
	case <-wait:
		return nil
	case <-done:
		return context.Cause(ctx)
	}
}

// awaitAway is await for a handler: others can use its turn t meanwhile.
func awaitAway(ctx context.Context, t *meter.Turn, wait <-chan struct{}) (err error) {
	var waited bool
	late := t.Wait(ctx, func() {
		waited = true
		select {
		case <-wait:
		case <-ctx.Done():
			err = context.Cause(ctx)
		}
	})
	if !waited {
		err = late
	}
	return err
}
