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
	results  *message // has a reference once Await has seen it
	once     sync.Mutex
}

// outgoing is the memory of a call that is made here.
type outgoing struct {
	answer  answer
	request request
	caps    Caps
}

// Send calls the method m of c. place fills in the parameters; if it is nil, they are empty. Send waits for
// room if the peer does not read, until ctx ends. It returns when the call is on its way, and ctx has no
// effect on the call after that. An error shows in the Answer. The caller has to release the Answer.
//
// A call that is pipelined, or is likely to be followed by a call on its outcome, may leave up to half a
// millisecond later, together with the next one. Whoever waits for an answer sends it off at once.
//
// For a `-> stream` method, Send also waits for room in the window (Limits.StreamBytes). Releasing the Answer
// does not cancel such a call. [Cap.Drain] waits for the last one. After one has failed, or was not sent,
// every later one on the same reference fails with that error, and so does Drain.
func Send[P, R ~capnp.StructKind](ctx context.Context, c *Cap, m Method[P, R], place func(P, *Caps) error) *Answer[R] {
	a := &Answer[R]{}
	send(ctx, c, m, place, &a.out, false)
	return a
}

// send is Send with memory for the call. It reports whether the call went out at once, so that only the peer
// and the users of the answer still refer to it.
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
			case errClosed: // the call itself will fail
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
	if err := conn.outbox.waitRoom(ctx); err != errClosed { // the call itself will fail
		return err
	}
	return ctx.Err()
}

// flushTo sends what waits on t's connection, because the caller is about to wait.
func flushTo(t target) {
	if conn := via(t); conn != nil {
		conn.outbox.flushUrgent()
	}
}

// via returns the connection that calls on t leave by, or nil if that is not known or they stay here.
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

// Await waits for the outcome, or until ctx ends. It returns the results, which are valid until Release, and
// the capabilities in them, which are borrowed. The failure of a call is an *Exception.
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

// Cap returns the capability at path in the results; each step is a pointer field. It can be called before
// the results are there. The reference is the caller's, and remains valid after Release.
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

// Release releases the results. If they have not arrived, and no capability that Cap returned is in use, the
// call is cancelled, unless it is of a stream. Only the first Release has an effect.
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

// Do calls the method m of c, waits, and calls read with the results, which are valid only until read
// returns. place and read may be nil. If ctx ends first, the call is cancelled. Do makes the call even if ctx
// has already ended.
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

// outgoings has the memory of calls that nothing refers to any more: they went out at once, and are in no
// table since their answer came. The memory of other calls is left to the garbage collector.
var outgoings = sync.Pool{New: func() any { return new(outgoing) }}
