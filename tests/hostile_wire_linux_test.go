package tests

import (
	"bufio"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"capnproto.org/go/capnp/v3"
	"capnproto.org/go/capnp/v3/std/capnp/rpc"
)

// peer speaks the protocol by hand, correctly or not. It buffers what it sends until it reads, or
// until flush. One goroutine may send while another reads.
type peer struct {
	testing.TB
	nc  net.Conn
	dec *capnp.Decoder

	mu sync.Mutex
	w  *bufio.Writer

	hasty bool                  // it waits only a moment for a host that reads nothing
	early map[uint32]rpc.Return // Returns that came while another was waited for
}

// rush is how long a hasty peer writes to a host that reads nothing, or hardly anything because of
// the race detector.
func rush() time.Duration {
	if raceBuilt || thorough {
		return 3 * time.Second
	}
	return 500 * time.Millisecond
}

// within returns when the host must have read what p writes now.
func (p *peer) within() time.Time {
	if p.hasty {
		return time.Now().Add(rush())
	}
	return time.Now().Add(patience)
}

func newPeer(t testing.TB, nc net.Conn) *peer {
	dec := capnp.NewDecoder(bufio.NewReaderSize(nc, 64<<10))
	dec.MaxMessageSize = 64 << 20
	return &peer{TB: t, nc: nc, w: bufio.NewWriterSize(nc, 32<<10), dec: dec, early: map[uint32]rpc.Return{}}
}

// send sends one message, whether or not the host still listens.
func (p *peer) send(fill func(rpc.Message) error) { p.bytes(message(p, fill)) }

// message returns the bytes of one message.
func message(t testing.TB, fill func(rpc.Message) error) []byte {
	t.Helper()
	msg, seg := capnp.NewSingleSegmentMessage(nil)
	root, err := rpc.NewRootMessage(seg)
	ok(t, err)
	ok(t, fill(root))
	b, err := msg.Marshal()
	ok(t, err)
	return b
}

func (p *peer) bytes(b []byte) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.nc.SetWriteDeadline(p.within())
	p.w.Write(b)
}

// flush sends the buffer, and reports whether the host took it.
func (p *peer) flush() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.nc.SetWriteDeadline(p.within())
	return p.w.Flush() == nil
}

// header returns the start of a frame of more+1 segments, the first of which has words words.
func header(more, words uint32) []byte {
	return binary.LittleEndian.AppendUint32(binary.LittleEndian.AppendUint32(nil, more), words)
}

// words returns a frame of one segment with these words.
func words(body ...uint64) []byte {
	b := header(0, uint32(len(body)))
	for _, w := range body {
		b = binary.LittleEndian.AppendUint64(b, w)
	}
	return b
}

// recv returns the next message; ok is false when the connection has ended.
func (p *peer) recv() (m rpc.Message, ok bool) {
	p.Helper()
	p.flush()
	p.nc.SetReadDeadline(time.Now().Add(patience))
	msg, err := p.dec.Decode()
	if err != nil {
		var ne net.Error
		if errors.As(err, &ne) && ne.Timeout() {
			p.Fatalf("the host said nothing for %v; it took all that was sent: %v", patience, p.flush())
		}
		return m, false
	}
	msg.ResetReadLimit(1 << 40)
	if m, err = rpc.ReadRootMessage(msg); err != nil {
		p.Fatalf("the host's message cannot be read: %v", err)
	}
	return m, true
}

// next reads messages up to the first of one kind.
func (p *peer) next(which rpc.Message_Which) rpc.Message {
	p.Helper()
	for {
		m, ok := p.recv()
		if !ok {
			p.Fatalf("the connection has ended, and a %v was due", which)
		}
		if m.Which() == rpc.Message_Which_abort && which != m.Which() {
			e, _ := m.Abort()
			why, _ := e.Reason()
			p.Fatalf("the host aborted (%s), and a %v was due", why, which)
		}
		if m.Which() == which {
			return m
		}
	}
}

// aborted reads until the connection has ended. The host must have sent an Abort that says why.
func (p *peer) aborted(why string) {
	p.Helper()
	reason := "nothing"
	for {
		m, ok := p.recv()
		if !ok {
			break
		}
		if m.Which() == rpc.Message_Which_abort {
			e, _ := m.Abort()
			reason, _ = e.Reason()
		}
	}
	if !strings.Contains(reason, why) {
		p.Errorf("the host aborted with %q, want %q", reason, why)
	}
}

// ended reads until the connection has ended, for any reason.
func (p *peer) ended() {
	p.Helper()
	p.flush()
	p.nc.SetReadDeadline(time.Now().Add(patience))
	if _, err := io.Copy(io.Discard, p.nc); errors.Is(err, errTimeout) {
		p.Errorf("the connection goes on")
	}
}

var errTimeout = func() error {
	a, b := net.Pipe()
	defer a.Close()
	defer b.Close()
	a.SetReadDeadline(time.Now())
	_, err := a.Read(make([]byte, 1))
	return err
}()

// ret returns the Return for q, and keeps Returns that come before it.
func (p *peer) ret(q uint32) rpc.Return {
	p.Helper()
	for {
		if r, there := p.early[q]; there {
			delete(p.early, q)
			return r
		}
		r, err := p.next(rpc.Message_Which_return).Return()
		ok(p, err)
		p.early[r.AnswerId()] = r
	}
}

// fails reads the Return for q. It must be an exception whose reason begins with one of want,
// separated by "
//
// ".
func (p *peer) fails(q uint32, want string) {
	p.Helper()
	r := p.ret(q)
	if r.Which() != rpc.Return_Which_exception {
		p.Errorf("call %d: a %v, want the error %s", q, r.Which(), want)
		return
	}
	e, err := r.Exception()
	ok(p, err)
	reason, err := e.Reason()
	ok(p, err)
	for w := range strings.SplitSeq(want, "|") {
		if coded(reason, w) {
			return
		}
	}
	p.Errorf("call %d fails with %q, want %s", q, reason, want)
}

// coded reports whether an exception's text has the code want; "" stands for any.
func coded(text, want string) bool {
	code, ok := strings.CutPrefix(text, "capd: ")
	return ok && (want == "" || strings.HasPrefix(code, want+":"))
}

// failAll reads the Returns of n calls, in any order. All must fail with want.
func (p *peer) failAll(n int, want string) {
	p.Helper()
	for range n {
		r, err := p.next(rpc.Message_Which_return).Return()
		ok(p, err)
		if r.Which() != rpc.Return_Which_exception {
			p.Errorf("a %v, want the error %s", r.Which(), want)
			return
		}
		e, err := r.Exception()
		ok(p, err)
		if reason, _ := e.Reason(); !coded(reason, want) {
			p.Errorf("it fails with %q, want %s", reason, want)
		}
	}
}

// works reads the Return for q, which must have results. It returns their content and capabilities.
func (p *peer) works(q uint32) (caps []uint32, content capnp.Ptr) {
	p.Helper()
	r := p.ret(q)
	if r.Which() != rpc.Return_Which_results {
		e, _ := r.Exception()
		reason, _ := e.Reason()
		p.Fatalf("call %d: %v %s", q, r.Which(), reason)
	}
	payload, err := r.Results()
	ok(p, err)
	table, err := payload.CapTable()
	ok(p, err)
	for i := range table.Len() {
		caps = append(caps, table.At(i).SenderHosted())
	}
	content, err = payload.Content()
	ok(p, err)
	return caps, content
}

func (p *peer) bootstrap(q uint32) {
	p.send(func(m rpc.Message) error {
		b, err := m.NewBootstrap()
		b.SetQuestionId(q)
		return err
	})
}

func (p *peer) finish(q uint32, releaseCaps bool) {
	p.send(func(m rpc.Message) error {
		f, err := m.NewFinish()
		f.SetQuestionId(q)
		f.SetReleaseResultCaps(releaseCaps)
		return err
	})
}

func (p *peer) release(id, n uint32) {
	p.send(func(m rpc.Message) error {
		r, err := m.NewRelease()
		r.SetId(id)
		r.SetReferenceCount(n)
		return err
	})
}

// answer answers a call from the host.
func (p *peer) answer(id uint32, fill func(rpc.Return) error) {
	p.send(func(m rpc.Message) error {
		r, err := m.NewReturn()
		if err != nil {
			return err
		}
		r.SetAnswerId(id)
		return fill(r)
	})
}

// empty is a result without content.
func empty(r rpc.Return) error {
	_, err := r.NewResults()
	return err
}

func (p *peer) resolve(promise uint32, to descriptor) {
	p.send(func(m rpc.Message) error {
		r, err := m.NewResolve()
		if err != nil {
			return err
		}
		r.SetPromiseId(promise)
		d, err := r.NewCap()
		if err != nil {
			return err
		}
		return to(d)
	})
}
