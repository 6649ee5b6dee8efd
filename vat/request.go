package vat

import (
	"context"
	"runtime/debug"
	"sync"
	"sync/atomic"

	"capnproto.org/go/capnp/v3"

	"capd/meter"
)

// A request is a call on its way: from the wire or from Send, through promises, to an object's handler or out on
// a connection. One owner at a time has it, and brings it to an end by completing its answer.
type request struct {
	iface  uint64
	method uint16
	params *message
	ans    *answer
	conn   *Conn // where it came from, whose meter gives it its turn; nil for a call made here
	direct bool  // it may run on the current goroutine

	barrier func() // for a place in a line that is no call

	object  *object // once it got there
	handler *Handler
	pooled  bool
	trying  bool // the handler is not to wait
	passed  bool // the next call on the object may start
	ran     bool // to its end, on the goroutine that brought it
	awaited bool // whoever made the call here waits for its outcome next
	results *message
	caps    Caps

	reserved int64        // bytes of the outbox for results
	payer    *meter.Meter // that counts them

	turn   *meter.Turn // to run, where it may wait; nil on the reader and for calls made here
	denied error       // why there is none

	canceled atomic.Bool // set while mu is held

	mu     sync.Mutex
	ctx    context.Context // made when it is asked for
	turned context.Context // likewise, with the turn
	cancel context.CancelFunc
	queue  *promise // waits there
}

// complete ends r. It takes over res.
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

// finish gives back what r holds: memory of its parameters, its room in the connection, its hold on the object.
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

// submit has r run in its turn. A call made in this process runs at once: its caller bounds how many there are, and with a
// bound here handlers that call one another could wait for each other for ever.
func (r *request) submit() {
	r.direct = false
	if r.conn == nil {
		go r.guarded()
		return
	}
	r.conn.meter.Load().Go(r.handler.lane(r), r)
}

// Work implements [meter.Worker].
func (r *request) Work(t *meter.Turn, err error) {
	r.turn, r.denied = t, err
	r.guarded()
}

// guarded is start; a panic of this package's own ends one connection and not the process.
func (r *request) guarded() {
	defer func() {
		if p := recover(); p != nil {
			r.logf("vat: panic: %v\n%s", p, debug.Stack())
			if r.conn != nil {
				r.conn.fail(protocolf("internal error"))
			}
		}
	}()
	r.start()
}

// stopped is why r does not go on after it has waited, which has answered err.
func (r *request) stopped(err error) *Exception {
	switch {
	case r.isCanceled():
		return ErrCanceled
	case r.conn.Err() != nil:
		return r.conn.gone()
	case ofMeter(err) != nil:
		return r.encode(err)
	}
	return ErrCanceled // with the connection, which does not say why yet
}

// start runs r in its turn.
func (r *request) start() {
	o := r.object
	o.retain() // r gives up its own hold when it completes
	defer o.release()
	// A handler that cannot block is let run to its end, and so keeps its place among the others as well as on
	// the reader.
	r.pooled = true
	waits := r.handler.serial || r.handler.inline
	if !waits {
		o.next(r.conn)
	}
	if r.denied != nil {
		r.fail(r.encode(r.denied))
	} else if err := r.roomForMore(); err != nil {
		r.fail(r.stopped(err))
	} else {
		r.run()
	}
	if waits && !r.passed {
		r.passed = true
		o.next(r.conn)
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

// attempt runs r on the goroutine that brought it, and reports false when the handler has to be run again where it
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
	res := r.results
	r.results = nil
	if err == nil && res != nil && (r.conn == nil || r.ans.table.yourself) {
		err = res.inline() // it is read here
	}
	if err == nil && res == nil {
		res, err = newReturn(0)
		if err == nil {
			err = res.newContent(r.handler.results)
		}
		if err != nil {
			res = nil
		}
	}
	if err == nil && res.msg.CapTable().Len() > 0 {
		// A capability pointer was copied from another message, where its index means something else.
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

// serve calls the handler; a panic is one call's failure.
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

// encode is what the caller sees of a handler's error. It may be kept for long.
func (r *request) encode(err error) *Exception {
	if r.conn == nil { // the caller is of this process
		return within(err)
	}
	if r.conn.options.Encode != nil {
		if e := r.conn.options.Encode(err); e != nil {
			return e.short()
		}
	}
	return asException(err).short()
}

// worded is exc as the peer is to see it, if it is one of this package's own.
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
	if r.conn != nil {
		r.conn.logf(format, args...)
	} else {
		logf(format, args...)
	}
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

// context returns what ends when the call is cancelled.
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

// abandon cancels r wherever it is, once nobody waits for its answer.
func (r *request) abandon() {
	r.mu.Lock()
	r.canceled.Store(true)
	cancel, queue := r.cancel, r.queue
	r.mu.Unlock()
	if cancel != nil {
		cancel()
	}
	if queue != nil && queue.remove(r) {
		r.fail(ErrCanceled)
	}
}

func (r *request) isCanceled() bool { return r.canceled.Load() }

func (r *request) setQueue(p *promise) {
	r.mu.Lock()
	r.queue = p
	r.mu.Unlock()
}

// A Call is what a handler gets: the parameters, and where the results go. It is a small value.
type Call[P, R ~capnp.StructKind] struct{ r *request }

// Context ends when the caller has cancelled the call or is gone.
func (c Call[P, R]) Context() context.Context { return c.r.context() }

// Params returns the parameters. They are the caller's own choice: any pointer in them may be null, of another
// type, or an error to read.
func (c Call[P, R]) Params() P { return P(c.r.params.content.Struct()) }

// Results returns the results to fill in, allocated on first use.
func (c Call[P, R]) Results() (R, error) { return c.ResultsFor(0) }

// reserveBytes is from which size on results are made only when there is room for them on the way to the peer.
const reserveBytes = 64 << 10

// reserve waits, once a call, until results of so many bytes go with what is on its way already. It answers why the
// call is not to go on.
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

// ResultsFor is Results with room for bytes bytes of Data, so that they can be read straight into the message:
// allocate the list with capnp.NewUInt8List in the results' segment and fill its Data in place. A message with
// room holds little more than was asked for. Only the first of Results, ResultsFor and Caps().Put decides.
//
// For 64 KiB and more it waits until the peer has read enough of what was answered before (Limits.ParkedBytes), so
// that large results do not pile up: ask before making them.
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

// Data makes the results' field of, a Data, n bytes long and returns its memory, which may hold anything: the handler
// fills all of it, or gives up the rest with [Call.Cut]. The bytes leave for the peer from there. For many of them it
// may wait as ResultsFor does. There is one such field, and it is set first. What the peer takes in one message is its
// own to say (Limits.MessageBytes, 8 MiB): more ends the connection.
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

// Cut shortens what Data returned to its first n bytes.
func (c Call[P, R]) Cut(n int) {
	if m := c.r.results; m != nil && m.tail.buf != nil && n < m.tail.n {
		m.tail.cut(n)
	}
}

// Caps gives access to the capabilities in the parameters and the results.
func (c Call[P, R]) Caps() *Caps { return &c.r.caps }

// Conn returns the connection over which the call came, or nil for a call made in this process.
func (c Call[P, R]) Conn() *Conn { return c.r.conn }

// Trying reports whether the handler, registered with [Try], must not wait for anything: it may return
// [ErrWouldBlock] instead, and will be run again.
func (c Call[P, R]) Trying() bool { return c.r.trying }

// Weigh says that the call will go through size bytes. Where the method's handler is [HeavyFrom] so many, it waits for
// its turn to.
func (c Call[P, R]) Weigh(size int64) error {
	r := c.r
	if r.turn == nil || r.handler.heavyFrom == 0 || size < r.handler.heavyFrom {
		return nil
	}
	return meter.Move(r.context(), meter.Heavy)
}

// Go lets the next call on the object start now. It matters to handlers that are [Serial].
func (c Call[P, R]) Go() {
	if r := c.r; r.handler.serial && r.pooled && !r.passed {
		r.passed = true
		r.object.next(r.conn)
	}
}
