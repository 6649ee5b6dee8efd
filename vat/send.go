package vat

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"

	"capnproto.org/go/capnp/v3"
)

// An Answer is the outcome of a call that was sent.
type Answer[R ~capnp.StructKind] struct {
	out      outgoing
	released atomic.Bool
	results  *message // counted, once Await has seen it
	once     sync.Mutex
}

// outgoing is the memory of a call that is made here.
type outgoing struct {
	answer  answer
	request request
	caps    Caps
}

// Send calls the method m of c. Its parameters are what place fills in; without place they are empty. The call is
// on its way when Send returns, whatever becomes of ctx, which bounds only the wait for room: a peer that does
// not read holds its callers up. One that is pipelined, or is likely to be pipelined on, may leave half a millisecond
// later, with what comes next; whoever waits for anything sends it off. An error shows in the Answer. The Answer must be
// released.
//
// A `-> stream` method is called the same way: Send waits for room in the window (Limits.StreamBytes), releasing its
// Answer does not cancel it, and [Cap.Drain] waits for the last. After one of them has failed, or was not sent, every later
// one on the same reference fails with that, and so does Drain.
func Send[P, R ~capnp.StructKind](ctx context.Context, c *Cap, m Method[P, R], place func(P, *Caps) error) *Answer[R] {
	a := &Answer[R]{}
	send(ctx, c, m, place, &a.out, false)
	return a
}

// send is Send with memory for the call. It reports whether the call went out at once, so that nobody but the peer
// and the answer's own users have to do with it any more.
func send[P, R ~capnp.StructKind](ctx context.Context, c *Cap, m Method[P, R], place func(P, *Caps) error, out *outgoing, awaited bool) bool {
	out.answer.users = 1
	out.answer.request = &out.request
	r := &out.request
	*r = request{iface: m.Interface, method: m.ID, ans: &out.answer, direct: true, awaited: awaited}
	refuse := func(exc *Exception) bool {
		if m.Stream {
			c.breakStream(exc)
		}
		r.fail(exc)
		return false
	}
	msg, err := newCall(m.Params)
	if err != nil {
		return refuse(notSent(m.Name, err))
	}
	r.params = msg
	if place != nil {
		out.caps = Caps{built: msg}
		err := place(P(msg.content.Struct()), &out.caps)
		out.caps = Caps{}
		if err != nil {
			return refuse(notSent(m.Name, err))
		}
		if msg.msg.CapTable().Len() > 0 {
			return refuse(exceptionf(Failed, "parameters of %s: capability pointer copied from another message", m.Name))
		}
	}
	t := c.use()
	defer t.release()
	if err := room(ctx, t); err != nil {
		return refuse(notSent(m.Name, err))
	}
	if m.Stream {
		if err := c.stream(ctx, &out.answer, msg.bytes()); err != nil {
			exc, ok := errors.AsType[*Exception](err) // the first failure of the stream
			if !ok {
				exc = notSent(m.Name, err)
			}
			return refuse(exc)
		}
	} else if n := msg.bytes(); n >= reserveBytes {
		if conn := via(t); conn != nil {
			switch err := conn.outbox.reserveCall(ctx, n); err {
			case nil:
				defer conn.outbox.releaseCall(n)
			case errClosed: // which the call meets
			default:
				return refuse(notSent(m.Name, err))
			}
		}
	}
	i, remote := t.(*importCap)
	if l := msg.tail.loan; l != nil {
		if remote && i.conn.outbox.lends() {
			l.ctx = ctx // the call returns when the loan is back
		} else {
			msg.tail.own()
		}
	}
	t.call(r)
	return remote && !m.Stream
}

// room waits until the peer that t leads to has read enough of what was sent before.
func room(ctx context.Context, t target) error {
	conn := via(t)
	if conn == nil || conn.outbox.parked() <= conn.limits.ParkedBytes {
		return nil
	}
	if err := conn.outbox.waitRoom(ctx); err != errClosed { // which the call meets
		return err
	}
	return ctx.Err()
}

// flushTo gets what was sent to t's connection onto its way, for one who waits for it.
func flushTo(t target) {
	if conn := via(t); conn != nil {
		conn.outbox.flushUrgent()
	}
}

// via returns the connection that calls on t leave by, as far as is known, or nil.
func via(t target) *Conn {
	switch t := settle(t).(type) {
	case *importCap:
		return t.conn
	case *promise:
		t.mu.Lock()
		dst := t.dst
		t.mu.Unlock()
		switch dst := dst.(type) {
		case *importCap:
			return dst.conn
		case *pipe:
			return dst.q.conn
		}
	}
	return nil
}

// Await waits for the outcome, or for ctx, and returns the results, which stay valid until Release, and the
// capabilities in them, which are borrowed. A failure of the call is an *Exception.
func (a *Answer[R]) Await(ctx context.Context) (R, *Caps, error) {
	var zero R
	if err := a.out.answer.await(ctx); err != nil {
		return zero, nil, err
	}
	a.once.Lock()
	defer a.once.Unlock()
	if a.released.Load() {
		return zero, nil, errDropped
	}
	if a.results == nil {
		res, exc := a.out.answer.outcome()
		if exc != nil {
			return zero, nil, exc
		}
		a.results = res
		a.out.caps = Caps{params: res}
	}
	return R(a.results.content.Struct()), &a.out.caps, nil
}

// Cap returns the capability at path in the results, one pointer field a step. It can be called before the
// results are there. The reference is the caller's, and outlives the Answer.
func (a *Answer[R]) Cap(path ...Field) *Cap {
	if a.released.Load() {
		return newCap(broken{errDropped})
	}
	var array [8]uint16
	fields := array[:0]
	for _, f := range path {
		fields = append(fields, uint16(f))
	}
	return newCap(a.out.answer.at(fields))
}

// Release gives up the results. If they have not arrived, and no capability taken from them with Cap is in use,
// the call is cancelled, unless it is of a stream. Further calls of Release do nothing.
func (a *Answer[R]) Release() {
	if !a.released.CompareAndSwap(false, true) {
		return
	}
	a.once.Lock()
	res := a.results
	a.results = nil
	a.once.Unlock()
	res.unref()
	a.out.answer.drop()
}

// Do calls the method m of c, waits, and has read look at the results, which are gone when it returns. Neither
// place nor read needs to be there. When ctx ends first the call is cancelled; one that has ended already does not keep it
// from being made.
func Do[P, R ~capnp.StructKind](ctx context.Context, c *Cap, m Method[P, R], place func(P, *Caps) error, read func(R, *Caps) error) error {
	out := outgoings.Get().(*outgoing)
	atOnce := send(ctx, c, m, place, out, true)
	over := false
	defer func() {
		if out.answer.drop(); over {
			*out = outgoing{}
			outgoings.Put(out)
		}
	}()
	if err := out.answer.await(ctx); err != nil {
		return err
	}
	res, exc := out.answer.outcome()
	if exc != nil {
		return exc
	}
	defer res.unref()
	over = atOnce && out.answer.plain
	if read == nil {
		return nil
	}
	out.caps = Caps{params: res}
	return read(R(res.content.Struct()), &out.caps)
}

// outgoings is memory of calls that nobody has to do with any more: they went out at once, and are in no table since
// they were answered. That of others is left to the garbage collector.
var outgoings = sync.Pool{New: func() any { return new(outgoing) }}
