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

// Options configures a connection. The zero value is that of a client.
type Options struct {
	// Bootstrap is the capability that the peer gets when it asks for one. The connection takes over the
	// reference.
	Bootstrap *Cap
	Limits    Limits
	// Meter counts what the peer uses here and gives its calls their turns; see SetMeter. If it is nil, the
	// connection has a meter of its own that runs Limits.Workers calls at once.
	Meter *meter.Meter
	// Encode returns what the peer sees of an error. It gets the errors that handlers return, and those with
	// which this package itself fails a call: ErrNoMethod and the like, and those whose reason begins with
	// the word limit. It must not block, and must not call this package.
	//
	// If Encode or its result is nil, the peer sees an *Exception as it is, and Failed "internal error" for
	// every other error. A caller in this process finds the error itself in that of the call. The error of a
	// handler's own Send or Do is an *Exception: if the handler returns it, its caller reads the words of a
	// third party.
	Encode func(error) *Exception
	// Logf reports panics in handlers and in this package. If it is nil, they go to package log.
	Logf func(format string, args ...any)
}

// A Conn is one connection to a peer. Its methods are safe for concurrent use.
type Conn struct {
	options  Options
	limits   Limits
	nc       net.Conn
	outbox   outbox
	meter    atomic.Pointer[meter.Meter]
	metered  atomic.Bool     // Options.Meter or SetMeter has set meter
	ctx      context.Context // ends with the connection; the parent of every call's context
	cancel   context.CancelCauseFunc
	done     chan struct{}
	messages atomic.Uint64 // messages that came in
	woken    atomic.Int32  // callers woken by their answers, less calls made since: see yieldToWoken
	awaited  atomic.Uint32 // number of answers that woke somebody
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
	echoes      int       // Disembargoes of the peer that wait for a promise
	calls       int       // of the peer, in progress
	callBytes   int64     // the size of their parameters
	pursed      int64     // the part of it that counts as large messages
	resultBytes int64     // results kept until Finish
	pipelined   methodKey // the last method whose outcome was called before it was known
	owed        int64     // an upper bound of what the peer keeps until Finishes and Releases leave
	idleTimer   *time.Timer
	held        int64  // what meter counts for calls
	remeter     signal // meter has changed
}

// A ProtocolError is why a connection was ended with Abort: the peer broke a rule or a limit, or [Conn.Abort]
// was called.
type ProtocolError struct{ Reason string }

func (e *ProtocolError) Error() string { return "vat: " + e.Reason }

func protocolf(format string, args ...any) error {
	return &ProtocolError{fmt.Sprintf(format, args...)}
}

// ErrClosed is Conn.Err after Close.
var ErrClosed = errors.New("vat: connection closed")

// closeGrace is how long the last frames, including an Abort, may take to leave.
const closeGrace = 100 * time.Millisecond

// NewConn speaks Cap'n Proto RPC over nc until either side closes it. It takes nc over.
func NewConn(nc net.Conn, o Options) *Conn {
	l := o.Limits.withDefaults()
	if o.Logf == nil {
		o.Logf = log.Printf
	}
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

// Close ends the connection. Calls in progress are cancelled, and every capability of the peer breaks.
func (c *Conn) Close() error {
	c.shutdown(ErrClosed)
	return nil
}

// Abort ends the connection as Close does, and tells the peer why. The peer's calls then fail with that
// reason.
func (c *Conn) Abort(reason string) { c.shutdown(&ProtocolError{Reason: reason}) }

// Heard reports whether a whole message has ever come in, and whether one waits for its turn or is being
// handled now. Without Options.Meter both are false.
func (c *Conn) Heard() (any, now bool) {
	h := c.reader.heard.Load()
	return h != 0, h == hearing
}

// Done is closed when the connection has ended and everything it held has been released.
func (c *Conn) Done() <-chan struct{} { return c.done }

// Err returns nil while the connection lives, and otherwise why it ended. It is io.EOF if the peer closed it.
// If the peer closed it during a write, it may be an error of the socket. Calls then fail with an *Exception
// of type Disconnected, which says less.
func (c *Conn) Err() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.err
}

// unwritten ends the connection after a failed write. If the peer has closed it, the peer may have said why:
// the reader gets a moment to find that.
func (c *Conn) unwritten(err error) {
	if errors.Is(err, syscall.EPIPE) || errors.Is(err, syscall.ECONNRESET) {
		time.AfterFunc(closeGrace, func() { c.shutdown(err) })
		return
	}
	c.shutdown(err)
}

// PeerAborted begins the reason with which calls end when the peer has sent Abort. The peer's reason follows.
const PeerAborted = "peer aborted the connection: "

// gone returns the failure of calls when the connection has ended.
func (c *Conn) gone() *Exception {
	if err := c.Err(); err != nil {
		if abort, ok := errors.AsType[*AbortError](err); ok {
			return exceptionf(Disconnected, "%s%s", PeerAborted, abort.Reason)
		}
		if broke, ok := errors.AsType[*ProtocolError](err); ok {
			return exceptionf(Disconnected, "connection closed: %s", broke.Reason)
		}
	}
	return &Exception{Type: Disconnected, Reason: "connection closed"}
}

// An AbortError is why a connection ended that the peer ended with Abort.
type AbortError struct{ Reason string }

func (e *AbortError) Error() string { return "vat: peer aborted: " + e.Reason }

// callsTogether and answersTogether are about how many small messages leave in one write. Enough of them make
// the write cheap. More would leave the peer idle while they are made.
const (
	callsTogether   = 32
	answersTogether = 16
)

// yieldToWoken is called before a call is sent. If answers have woken other callers that have not made their
// next calls yet, it lets them run first, so that all these calls leave in one write.
func (c *Conn) yieldToWoken() {
	if n := c.calledBack(); n > 0 && n%callsTogether != 0 {
		runtime.Gosched()
	}
}

// calledBack records that a call is made. It returns how many callers were woken and have not made their next
// call.
func (c *Conn) calledBack() int32 {
	n := c.woken.Add(-1)
	if n < 0 {
		c.woken.CompareAndSwap(n, 0)
	}
	return n
}

// handshake completes the TLS handshake, before TLS records are gathered.
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
	Questions   int   // open calls to the peer
	Answers     int   // open calls of the peer
	Calls       int   // those of them in progress
	Exports     int   // capabilities that the peer holds
	Imports     int   // capabilities of the peer held here
	Embargoes   int   // embargoes that wait for the peer
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

// callDone records that a call of the peer is no longer in progress.
func (c *Conn) callDone(bytes, pursed int64) {
	c.mu.Lock()
	c.calls--
	c.callBytes -= bytes
	c.pursed -= pursed
	c.hold()
	c.mu.Unlock()
}

// send appends m to the outbox and releases it. m must have no capabilities. Called with c.mu held, so that
// frames are in the order of the changes to the tables.
func (c *Conn) send(m *message) {
	if m != nil {
		c.outbox.append(m, true)
		m.unref()
	}
}

// Nobody waits for a Finish or a Release, so it leaves with the next frame. Until then the peer keeps what it
// would free, and the peer has limits. So at most mostOwed bytes are kept that way. A capability counts as
// keptCap.
const (
	mostOwed = 8 << 10
	keptCap  = 256
)

// owe records that a Finish or Release is about to be sent, until which the peer keeps that many bytes. It
// reports whether it has to leave at once. Called with c.mu held.
func (c *Conn) owe(bytes int64) (urgent bool) {
	if c.owed += bytes; c.owed < mostOwed {
		return false
	}
	c.owed = 0
	return true
}
