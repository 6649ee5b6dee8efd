package vat

import (
	"context"
	"errors"
	"fmt"
	"log"
	"net"
	"runtime"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"capd/meter"
)

// Options configures a connection. The zero value is a client's.
type Options struct {
	// Bootstrap is what the peer gets when it asks for the bootstrap capability. The connection takes over the
	// reference.
	Bootstrap *Cap
	Limits    Limits
	// Meter counts what the peer makes this side hold and do, and gives its calls their turns; see SetMeter. Nil is one of
	// the connection's own, for Limits.Workers calls at once.
	Meter *meter.Meter
	// Encode must not block, and calls nothing of this package.
	//
	// Encode says what the peer sees of an error that a handler returned, and of those with which this package fails a call
	// itself: ErrNoMethod and its like, and what begins with the word limit. Nil, or a nil result, is the default:
	// an *Exception stands for itself, everything else is Failed "internal error". A caller in this process finds the error
	// itself in what the call failed with. What a handler's own Send or Do
	// failed with is an *Exception: returned as it is, the caller reads whatever a third party said.
	Encode func(error) *Exception
	// Logf reports panics in handlers and in this package. Nil is the log package.
	Logf func(format string, args ...any)
}

// A Conn is one connection to a peer. Its methods are safe for concurrent use.
type Conn struct {
	options  Options
	limits   Limits
	nc       net.Conn
	outbox   outbox
	meter    atomic.Pointer[meter.Meter]
	metered  atomic.Bool     // it is not the connection's own
	ctx      context.Context // ends with the connection; the parent of every call's
	cancel   context.CancelCauseFunc
	done     chan struct{}
	messages atomic.Uint64 // that came in
	woken    atomic.Int32  // callers whose answers came, less calls made since: see yieldToWoken
	awaited  atomic.Uint32 // answers that somebody was woken for
	reader   reader

	mu          sync.Mutex
	closed      bool
	err         error
	questions   numbered[question]
	questionIDs ids
	answers     numbered[answer]
	exports     numbered[export]
	exportIDs   map[target]uint32
	freeExports ids
	imports     map[uint32]*importCap
	embargoes   map[uint32]*embargo
	embargoIDs  ids
	echoes      int       // Disembargoes of the peer's that wait for a promise
	calls       int       // of the peer's, in progress
	callBytes   int64     // their parameters
	pursed      int64     // of those, what counts as large messages
	resultBytes int64     // results kept until Finish
	pipelined   methodKey // the last whose outcome a call was aimed at before it was there
	owed        int64     // what the peer keeps until a Finish or Release that does not leave at once, or more
	idleTimer   *time.Timer
	held        int64         // what meter counts for calls
	remeter     chan struct{} // closed when meter changes; made when somebody waits
}

// A ProtocolError is why a connection was ended with Abort: the peer broke a rule, or a limit, or [Conn.Abort] said so.
type ProtocolError struct{ Reason string }

func (e *ProtocolError) Error() string { return "vat: " + e.Reason }

func protocolf(format string, args ...any) error {
	return &ProtocolError{fmt.Sprintf(format, args...)}
}

// ErrClosed is Conn.Err after Close.
var ErrClosed = errors.New("vat: connection closed")

// closeGrace is how long the last frames, an Abort among them, may take to leave.
const closeGrace = 100 * time.Millisecond

// NewConn speaks Cap'n Proto RPC over nc, which it owns from now on, until either side closes it.
func NewConn(nc net.Conn, o Options) *Conn {
	l := o.Limits.withDefaults()
	c := &Conn{
		options:   o,
		limits:    l,
		nc:        nc,
		done:      make(chan struct{}),
		exportIDs: map[target]uint32{},
		imports:   map[uint32]*importCap{},
		embargoes: map[uint32]*embargo{},
	}
	c.ctx, c.cancel = context.WithCancelCause(context.Background())
	c.outbox = outbox{nc: nc, soft: l.ParkedBytes, max: l.ParkedMax, timeout: l.WriteTimeout, failed: c.unwritten}
	c.outbox.inline = inlineFrame
	m := o.Meter
	if m == nil {
		m = meter.Alone(l.Workers)
	}
	c.meter.Store(m)
	c.metered.Store(o.Meter != nil)
	c.outbox.meter.Store(m)
	sock := socketOf(nc)
	c.reader.init(c, newInput(nc, sock, &c.outbox))
	if c.outbox.sock = sock; sock == nil {
		c.outbox.inline = recordFrame
		if g, below := gatheredBelow(nc); g != nil {
			c.outbox.sock, c.outbox.seal = below, &sealer{g: g}
			c.outbox.writing = true // until TLS is ready: see handshake
		}
	}
	c.SetIdleTimeout(l.IdleTimeout)
	go c.read()
	return c
}

// Close ends the connection. Calls in progress are cancelled, and every capability of the peer's breaks.
func (c *Conn) Close() error {
	c.shutdown(ErrClosed)
	return nil
}

// Abort ends the connection as Close does, and tells the peer why. What it calls fails with that from then on.
func (c *Conn) Abort(reason string) { c.shutdown(&ProtocolError{Reason: reason}) }

// Heard reports whether a whole message has ever come in, and whether one is waiting for its turn or being handled now.
// Without Options.Meter both are false.
func (c *Conn) Heard() (any, now bool) {
	h := c.reader.heard.Load()
	return h != 0, h == hearing
}

// Done is closed when the connection has ended and everything it held has been released.
func (c *Conn) Done() <-chan struct{} { return c.done }

// Err returns why the connection ended, or nil while it lives. io.EOF: the peer closed it. One that was closed while
// something was being written to it may have the socket's own error. What calls fail with then is an *Exception of the type
// Disconnected, which says less.
func (c *Conn) Err() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.err
}

// fail ends the connection for err. A breach of the protocol is reported to the peer.
func (c *Conn) fail(err error) { c.shutdown(err) }

// unwritten ends the connection for err, for which something could not be written. A peer that has closed it may have said
// why before: the reader has a moment to find that.
func (c *Conn) unwritten(err error) {
	if errors.Is(err, syscall.EPIPE) || errors.Is(err, syscall.ECONNRESET) {
		time.AfterFunc(closeGrace, func() { c.fail(err) })
		return
	}
	c.fail(err)
}

// PeerAborted is how the reason begins that calls end with when the peer has sent Abort; the peer's own follows.
const PeerAborted = "peer aborted the connection: "

// gone is what calls end with when the connection does.
func (c *Conn) gone() *Exception {
	if err := c.Err(); err != nil {
		var abort *AbortError
		if errors.As(err, &abort) {
			return exceptionf(Disconnected, "%s%s", PeerAborted, abort.Reason)
		}
		if broke, ok := errors.AsType[*ProtocolError](err); ok {
			return exceptionf(Disconnected, "connection closed: %s", broke.Reason)
		}
	}
	return &Exception{Type: Disconnected, Reason: "connection closed"}
}

// An AbortError is why a connection ended when the peer sent Abort.
type AbortError struct{ Reason string }

func (e *AbortError) Error() string { return "vat: peer aborted: " + e.Reason }

// callsTogether and answersTogether are how many small messages leave in one write at most, more or less: so many that
// the write is cheap, and so few that the peer has something to do while the next are made.
const (
	callsTogether   = 32
	answersTogether = 16
)

// yieldToWoken comes before a call gets onto its way: while other callers have been woken by their answers and not made
// their next calls yet, it lets them run first, so that their calls leave in one write.
func (c *Conn) yieldToWoken() {
	if n := c.calledBack(); n > 0 && n%callsTogether != 0 {
		runtime.Gosched()
	}
}

// calledBack notes that a call is made, and returns how many callers were woken and have not made theirs.
func (c *Conn) calledBack() int32 {
	n := c.woken.Add(-1)
	if n < 0 {
		c.woken.CompareAndSwap(n, 0)
	}
	return n
}

// handshake brings TLS about, where that has not been done, before what it writes is gathered.
func (c *Conn) handshake() error {
	if err := c.nc.(tlsConn).HandshakeContext(c.ctx); err != nil {
		return err
	}
	c.outbox.seal.g.begin()
	c.outbox.mu.Lock()
	c.outbox.rest()
	c.outbox.mu.Unlock()
	c.outbox.flush()
	return nil
}

// Stats is what a connection holds at one moment.
type Stats struct {
	Questions   int   // calls to the peer that are open
	Answers     int   // calls of the peer's that are open
	Calls       int   // of those, in progress
	Exports     int   // capabilities that the peer holds
	Imports     int   // capabilities of the peer's held here
	Embargoes   int   // waiting for the peer
	CallBytes   int64 // parameters of calls in progress
	ResultBytes int64 // results kept for pipelining
	ParkedBytes int64 // frames that the peer has not read
}

// Stats returns what the connection holds now.
func (c *Conn) Stats() Stats {
	c.mu.Lock()
	defer c.mu.Unlock()
	return Stats{

		Questions: c.questions.len(), Answers: c.answers.len(), Calls: c.calls, Exports: c.exports.len(),
		Imports: len(c.imports), Embargoes: len(c.embargoes), CallBytes: c.callBytes, ResultBytes: c.resultBytes,
		ParkedBytes: c.outbox.parked(),
	}
}

// callDone notes that a call of the peer's is no longer in progress.
func (c *Conn) callDone(bytes, pursed int64) {
	c.mu.Lock()
	c.calls--
	c.callBytes -= bytes
	c.pursed -= pursed
	c.hold()
	c.mu.Unlock()
}

// send appends m to the outbox and releases it. Called with c.mu held, so that the order of frames is that of
// the changes to the tables; m must hold no capabilities.
func (c *Conn) send(m *message) {
	if m != nil {
		c.outbox.append(m, true)
		m.unref()
	}
}

// A Finish or a Release leaves with what comes after it: nobody waits for it. But the peer keeps what it tells of until
// then, and has limits: so much, of which a capability is keptCap, is kept for it at most.
const (
	mostOwed = 8 << 10
	keptCap  = 256
)

// owe notes that a Finish or Release is about to be sent, until which the peer keeps so many bytes, and reports whether
// it is to leave at once. Called with c.mu held.
func (c *Conn) owe(bytes int64) (urgent bool) {
	if c.owed += bytes; c.owed < mostOwed {
		return false
	}
	c.owed = 0
	return true
}

func (c *Conn) logf(format string, args ...any) {
	if c.options.Logf != nil {
		c.options.Logf(format, args...)
		return
	}
	logf(format, args...)
}

func logf(format string, args ...any) { log.Printf(format, args...) }
