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

	schema "capd/capnp"
	"capd/vat"
)

// peer speaks the protocol by hand, correctly or not. It buffers what it sends until it reads, or
// until flush. One goroutine may send while another reads.
type peer struct {
	testing.TB
	nc  net.Conn
	dec *capnp.Decoder

	mu sync.Mutex
	w  *bufio.Writer

	early map[uint32]rpc.Return // Returns that came while another was waited for
}

// rush is how long a peer writes to a host that reads nothing, or hardly anything because of the
// race detector.
func rush() time.Duration {
	if raceBuilt {
		return 3 * time.Second
	}
	return 500 * time.Millisecond
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
	p.nc.SetWriteDeadline(time.Now().Add(rush()))
	p.w.Write(b)
}

// flush sends the buffer, and reports whether the host took it.
func (p *peer) flush() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.nc.SetWriteDeadline(time.Now().Add(rush()))
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

// target is the target of a message.
type target func(rpc.MessageTarget) error

func export(id uint32) target {
	return func(t rpc.MessageTarget) error { t.SetImportedCap(id); return nil }
}

func result(q uint32, path ...uint16) target {
	return func(t rpc.MessageTarget) error {
		pa, err := t.NewPromisedAnswer()
		if err != nil {
			return err
		}
		return follow(pa, q, path)
	}
}

func follow(pa rpc.PromisedAnswer, q uint32, path []uint16) error {
	pa.SetQuestionId(q)
	ops, err := pa.NewTransform(int32(len(path)))
	for i, field := range path {
		ops.At(i).SetGetPointerField(field)
	}
	return err
}

func (p *peer) disembargo(to target, set func(rpc.Disembargo_context)) {
	p.send(func(m rpc.Message) error {
		d, err := m.NewDisembargo()
		if err != nil {
			return err
		}
		set(d.Context())
		t, err := d.NewTarget()
		if err != nil {
			return err
		}
		return to(t)
	})
}

// descriptor is an entry of a capability table.
type descriptor func(rpc.CapDescriptor) error

func hosted(id uint32) descriptor {
	return func(d rpc.CapDescriptor) error { d.SetSenderHosted(id); return nil }
}

func promise(id uint32) descriptor {
	return func(d rpc.CapDescriptor) error { d.SetSenderPromise(id); return nil }
}

func theirs(id uint32) descriptor {
	return func(d rpc.CapDescriptor) error { d.SetReceiverHosted(id); return nil }
}

func theirAnswer(q uint32, path ...uint16) descriptor {
	return func(d rpc.CapDescriptor) error {
		pa, err := d.NewReceiverAnswer()
		if err != nil {
			return err
		}
		return follow(pa, q, path)
	}
}

// call is a call as it is to be sent.
type call struct {
	q      uint32
	to     target
	iface  uint64
	method uint16
	params func(rpc.Payload) error
	also   func(rpc.Call) error
}

func (p *peer) call(c call) { p.send(c.fill) }

func (c call) fill(m rpc.Message) error {
	w, err := m.NewCall()
	if err != nil {
		return err
	}
	w.SetQuestionId(c.q)
	w.SetInterfaceId(c.iface)
	w.SetMethodId(c.method)
	if c.to != nil {
		t, err := w.NewTarget()
		if err != nil {
			return err
		}
		if err := c.to(t); err != nil {
			return err
		}
	}
	payload, err := w.NewParams()
	if err != nil {
		return err
	}
	if c.params != nil {
		if err := c.params(payload); err != nil {
			return err
		}
	}
	if c.also != nil {
		return c.also(w)
	}
	return nil
}

// of returns a call of a method, with its parameters and its capability table.
func of[P, R ~capnp.StructKind](q uint32, to target, m vat.Method[P, R], fill func(P) error, caps ...descriptor) call {
	return call{q: q, to: to, iface: m.Interface, method: m.ID, params: func(payload rpc.Payload) error {
		s, err := capnp.NewStruct(payload.Segment(), m.Params)
		if err != nil {
			return err
		}
		if err := payload.SetContent(s.ToPtr()); err != nil {
			return err
		}
		if fill != nil {
			if err := fill(P(s)); err != nil {
				return err
			}
		}
		if len(caps) == 0 {
			return nil
		}
		table, err := payload.NewCapTable(int32(len(caps)))
		if err != nil {
			return err
		}
		for i, d := range caps {
			if err := d(table.At(i)); err != nil {
				return err
			}
		}
		return nil
	}}
}

// yourself makes the host keep the results.
func (c call) yourself() call {
	c.also = func(w rpc.Call) error { w.SendResultsTo().SetYourself(); return nil }
	return c
}

// pointer is a capability pointer to the i-th entry of the capability table.
func pointer[P ~capnp.StructKind](p P, i uint32) capnp.Interface {
	return capnp.NewInterface(capnp.Struct(p).Segment(), capnp.CapabilityID(i))
}

// Calls that many attacks use.

func restore(q uint32, session target, secret []byte) call {
	return of(q, session, schema.Session_restore, func(p schema.Session_restore_Params) error { return p.SetSecret(secret) })
}

func openFile(q uint32, dir target, path string) call {
	return of(q, dir, schema.Dir_openFile, func(p schema.Dir_openFile_Params) error { return p.SetPath(path) })
}

func openDir(q uint32, dir target, path string) call {
	return of(q, dir, schema.Dir_openDir, func(p schema.Dir_openDir_Params) error { return p.SetPath(path) })
}

func read(q uint32, file target, off uint64, n uint32) call {
	return of(q, file, schema.File_read, func(p schema.File_read_Params) error {
		p.SetOffset(off)
		p.SetLength(n)
		return nil
	})
}

// stream streams a whole file to the capability that sink describes.
func stream(q uint32, file target, sink descriptor) call {
	return of(q, file, schema.File_stream, func(p schema.File_stream_Params) error { return p.SetSink(pointer(p, 0)) }, sink)
}

// moveTo moves a path that does not exist to a directory that dst describes.
func moveTo(q uint32, dir target, dst descriptor) call {
	return of(q, dir, schema.Dir_move, func(p schema.Dir_move_Params) error {
		if err := errors.Join(p.SetPath("hostile/none"), p.SetNewPath("hostile/new")); err != nil {
			return err
		}
		return p.SetDst(pointer(p, 0))
	}, dst)
}

func statDir(q uint32, dir target) call { return of(q, dir, schema.Dir_stat, nil) }
