package vat

import (
	"context"
	"log"
	"runtime/debug"
	"sync"
	"sync/atomic"

	"capnproto.org/go/capnp/v3"

	"capd/meter"
)

// A request is a call on its way: from the wire or from Send, through promises, to the handler of an object
// or out on a connection. It has one owner at a time, who has to complete its answer.
type request struct {
	iface  uint64
	method uint16
	params *message
	ans    *answer
	conn   *Conn // where it came from; its meter gives r a turn; nil for a call made here
	direct bool  // it may run on the present goroutine

	barrier func() // not a call, but a function in a line

	object  *object                // set when it has arrived there
	line    atomic.Pointer[object] // where the next call waits for this one; nil once it may start
	handler *Handler
	trying  bool // the handler must not wait
	ran     bool // completed on the goroutine that brought it
	awaited bool // the caller, in this process, waits for its outcome next
	results *message
	caps    Caps

	reserved int64        // bytes of the outbox, reserved for results
	payer    *meter.Meter // the meter that counts them

	turn   *meter.Turn // nil on the reader and for calls made here
	denied error       // why there is no turn

	canceled atomic.Bool // set while mu is held

	mu     sync.Mutex
	ctx    context.Context // made when somebody asks for it
	turned context.Context // ctx with the turn, made likewise
	cancel context.CancelFunc
	queue  *promise    // the promise where r waits
	lined  *meter.Turn // the turn that r waits for, or had
}

// complete ends r with results or a failure. It takes over res.
func (r *request) complete(res *message, exc *Exception) {
	if exc != nil && r.handler != nil && r.handler.stream {
		r.object.streamBroken(exc)
	}
	conn, reserved, payer := r.conn, r.reserved, r.payer
	r.reserved = 0
	r.finish()
	r.ans.complete(res, exc)
	if reserved > 0 {
		conn.outbox.release(payer, reserved)
	}
}

func (r *request) fail(exc *Exception) { r.complete(nil, exc) }

// finish releases what r holds: its parameters, its room in the connection, and its object.
func (r *request) finish() {
	if m := r.params; m != nil {
		r.params = nil
		if r.conn != nil {
			r.conn.callDone(m.bytes(), m.purse.taken)
		}
		m.unref()
	}
	if o := r.object; o != nil {
		r.object = nil
		o.release()
	}
}

// submit makes r run in its turn. A call made in this process runs at once. Its caller bounds the number of
// such calls. A bound here could make handlers that call each other wait forever.
func (r *request) submit() {
	r.direct = false
	if r.conn == nil {
		go r.guarded()
		return
	}
	t := new(meter.Turn)
	r.mu.Lock()
	r.lined = t
	canceled := r.canceled.Load()
	r.mu.Unlock()
	if canceled {
		go r.Work(nil, context.Canceled) // not here: it may submit the next call
		return
	}
	r.conn.meter.Load().GoIn(t, r.handler.lane(r), r)
}

// Work implements [meter.Worker]. t is nil for a call that is cancelled before its turn.
func (r *request) Work(t *meter.Turn, err error) {
	r.turn, r.denied = t, err
	r.guarded()
}

// guarded runs r. A panic in this package ends the connection and not the process.
func (r *request) guarded() {
	defer func() {
		if p := recover(); p != nil {
			r.logf("vat: panic: %v\n%s", p, debug.Stack())
			if r.conn != nil {
				r.conn.shutdown(protocolf("internal error"))
			}
		}
	}()
	r.start()
}

// stopped returns why r does not go on after a wait that returned err.
func (r *request) stopped(err error) *Exception {
	switch {
	case r.isCanceled():
		return ErrCanceled
	case r.conn.Err() != nil:
		return r.conn.gone()
	case ofMeter(err) != nil:
		return r.encode(err)
	}
	return ErrCanceled // the connection is ending, and does not say why yet
}

// start runs r in its turn.
func (r *request) start() {
	o := r.object
	o.retain() // r releases its own reference when it completes
	defer o.release()
	// An inline handler runs to its end before the next call starts, as it does on the reader, so that the
	// calls keep their order.
	r.line.Store(o)
	if !r.handler.serial && !r.handler.inline {
		r.pass()
	}
	if r.denied != nil {
		r.fail(r.stopped(r.denied))
	} else if err := r.roomForMore(); err != nil {
		r.fail(r.stopped(err))
	} else {
		r.run()
	}
	r.pass()
}

// pass lets the next call on the object start, once.
func (r *request) pass() {
	if o := r.line.Swap(nil); o != nil {
		o.next(r.conn)
	}
}

// Pass implements [meter.Passer].
func (r *request) Pass() {
	if r.handler.serial {
		r.pass()
	}
}

// roomForMore waits until the peer has read enough to be answered more.
func (r *request) roomForMore() error {
	if r.conn == nil || r.conn.outbox.hasRoom() {
		return nil
	}
	return r.conn.outbox.waitReplies(r.context())
}

// run calls the handler and completes r.
func (r *request) run() {
	if r.isCanceled() {
		r.fail(ErrCanceled)
		return
	}
	r.conclude(r.serve())
}

// attempt runs r on the goroutine that brought it. It reports false if the handler has to run again where it
// may wait.
func (r *request) attempt() bool {
	if r.isCanceled() {
		r.fail(ErrCanceled)
		return true
	}
	r.trying = r.handler.try
	err := r.serve()
	if r.trying && err == ErrWouldBlock {
		r.trying = false
		r.results.unref()
		r.results = nil
		return false
	}
	r.conclude(err)
	return true
}

// conclude completes r after its handler has returned err.
func (r *request) conclude(err error) {
	r.mu.Lock()
	cancel := r.cancel
	r.mu.Unlock()
	if cancel != nil {
		cancel()
	}
	if err == nil {
		_, err = r.allocate(0) // the handler may not have asked for results
	}
	res := r.results
	r.results = nil
	if err == nil && (r.conn == nil || r.ans.table.yourself) {
		err = res.inline() // it is read in this process
	}
	if err == nil && res.msg.CapTable().Len() > 0 {
		// The pointer's index belongs to another message, where it means another capability.
		r.logf("vat: %s copied a capability pointer between messages; use Caps.Get and Caps.Put", r.handler.name)
		err = errInternal
	}
	if err != nil {
		res.unref()
		r.fail(r.encode(err))
		return
	}
	r.complete(res, nil)
}

// serve calls the handler. A panic fails only this call.
func (r *request) serve() (err error) {
	defer func() {
		if p := recover(); p != nil {
			r.logf("vat: panic in %s: %v\n%s", r.handler.name, p, debug.Stack())
			err = errInternal
		}
	}()
	r.caps = Caps{params: r.params, request: r}
	return r.handler.serve(r.object.self, r)
}

// encode returns what the caller sees of a handler's error. The result may be kept for long.
func (r *request) encode(err error) *Exception {
	if r.conn == nil { // the caller is in this process
		return within(err)
	}
	if r.conn.options.Encode != nil {
		if e := r.conn.options.Encode(err); e != nil {
			return e.short()
		}
	}
	return asException(err).short()
}

// worded returns exc as the peer is to see it: an exception of this package's own goes through
// Options.Encode.
func (c *Conn) worded(exc *Exception) *Exception {
	if exc == nil || !exc.own || exc.cause != nil || c.options.Encode == nil {
		return exc
	}
	if e := c.options.Encode(exc); e != nil {
		return e.short()
	}
	return exc
}

func (r *request) logf(format string, args ...any) {
	logf := log.Printf
	if r.conn != nil {
		logf = r.conn.options.Logf
	}
	logf(format, args...)
}

// allocate returns the message of the results, made on first use.
func (r *request) allocate(room int) (*message, error) {
	if r.results == nil {
		m, err := newReturn(room)
		if err != nil {
			return nil, err
		}
		if err := m.newContent(r.handler.results); err != nil {
			return nil, err
		}
		r.results = m
	}
	return r.results, nil
}

// context returns a context that ends when the call is cancelled.
func (r *request) context() context.Context {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.ctx == nil {
		base := context.Background()
		if r.conn != nil {
			base = r.conn.ctx
		}
		r.ctx, r.cancel = context.WithCancel(base)
		if r.canceled.Load() {
			r.cancel()
		}
	}
	if r.turn != nil && r.turned == nil {
		r.turned = r.turn.Context(r.ctx)
	}
	if r.turned != nil {
		return r.turned
	}
	return r.ctx
}

// abandon cancels r once nobody waits for its answer.
func (r *request) abandon() {
	r.mu.Lock()
	r.canceled.Store(true)
	cancel, queue, lined := r.cancel, r.queue, r.lined
	r.mu.Unlock()
	if cancel != nil {
		cancel()
	}
	if queue != nil && queue.remove(r) {
		r.fail(ErrCanceled)
	}
	if lined != nil && lined.Cancel() {
		r.Work(nil, context.Canceled)
	}
}

func (r *request) isCanceled() bool { return r.canceled.Load() }

func (r *request) setQueue(p *promise) {
	r.mu.Lock()
	r.queue = p
	r.mu.Unlock()
}

// A Call is what a handler gets: the parameters, and where to put the results. It is small and passed by
// value.
type Call[P, R ~capnp.StructKind] struct{ r *request }

// Context returns a context that ends when the caller has cancelled the call or its connection has ended.
func (c Call[P, R]) Context() context.Context { return c.r.context() }

// Params returns the parameters. The caller may send anything: a pointer in them may be null, of another
// type, or an error to read.
func (c Call[P, R]) Params() P { return P(c.r.params.content.Struct()) }

// Results returns the results to fill in. The first call allocates them.
func (c Call[P, R]) Results() R {
	m, err := c.r.allocate(0)
	if err != nil {
		panic(err) // never: the memory grows, and the results are one struct
	}
	return R(m.content.Struct())
}

// reserveBytes is the size from which results wait for room on the way to the peer before they are made.
const reserveBytes = 64 << 10

// reserve waits until results of that many bytes fit beside those on their way to the peer. It waits only
// once for a call. An error says why the call does not go on.
func (r *request) reserve(bytes int) error {
	if bytes < reserveBytes || r.conn == nil || r.direct || r.reserved > 0 {
		return nil
	}
	m := r.conn.meter.Load()
	if err := r.conn.outbox.reserve(r.context(), m, int64(bytes)); err != nil {
		return r.stopped(err)
	}
	r.reserved, r.payer = int64(bytes), m
	return nil
}

// ResultsFor is Results with room for bytes bytes of Data. A handler can read them directly into the message:
// it allocates the list with capnp.NewUInt8List in the segment of the results and fills its Data in place. A
// message with room can hold little more than that. Only the first of Results, ResultsFor and Caps().Put has
// an effect on the room.
//
// For 64 KiB and more, ResultsFor waits until the peer has read enough of earlier answers
// (Limits.ParkedBytes). So call it before making large results.
func (c Call[P, R]) ResultsFor(bytes int) (R, error) {
	if c.r.results == nil {
		if err := c.r.reserve(bytes); err != nil {
			return R{}, err
		}
	}
	m, err := c.r.allocate(bytes)
	if err != nil {
		return R{}, err
	}
	return R(m.content.Struct()), nil
}

// Data makes a Data field of the results n bytes long and returns its memory. The memory may contain
// anything: the handler has to fill all of it, or shorten it with [Call.Cut]. The bytes are sent from there.
// Only one such field can be set, and it must be the first field to be set. For 64 KiB and more, Data waits
// as ResultsFor does. The peer bounds what it takes in one message (Limits.MessageBytes, 8 MiB): more ends
// the connection.
func (c Call[P, R]) Data(of Field, n int) ([]byte, error) {
	if err := c.r.reserve(n); err != nil {
		return nil, err
	}
	m, err := c.r.allocate(0)
	if err != nil {
		return nil, err
	}
	return m.data(of, n)
}

// Cut shortens the memory that Data returned to its first n bytes.
func (c Call[P, R]) Cut(n int) {
	if m := c.r.results; m != nil && m.tail.buf != nil && n < m.tail.n {
		m.tail.cut(n)
	}
}

// Caps gives access to the capabilities in the parameters and the results.
func (c Call[P, R]) Caps() *Caps { return &c.r.caps }

// Conn returns the connection over which the call came, or nil for a call made in this process.
func (c Call[P, R]) Conn() *Conn { return c.r.conn }

// Trying reports whether the handler, registered with [Try], must not wait. It may return [ErrWouldBlock] and
// then runs again.
func (c Call[P, R]) Trying() bool { return c.r.trying }

// Weigh says that the call will read or write size bytes. If the handler is registered with [HeavyFrom] and
// size reaches its limit, Weigh waits for a turn in the meter's lane for heavy calls.
func (c Call[P, R]) Weigh(size int64) error {
	r := c.r
	if r.turn == nil || r.handler.heavyFrom == 0 || size < r.handler.heavyFrom {
		return nil
	}
	return meter.Move(r.context(), meter.Heavy)
}

// Go lets the next call on the object start now. It has an effect only in a [Serial] handler.
func (c Call[P, R]) Go() { c.r.Pass() }
