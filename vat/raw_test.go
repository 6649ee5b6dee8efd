package vat_test

import (
	"errors"
	"net"
	"os"
	"testing"
	"time"

	"capnproto.org/go/capnp/v3"
	"capnproto.org/go/capnp/v3/std/capnp/rpc"

	"capd/vat"
	tp "capd/vat/internal/testproto"
)

// A raw peer speaks the protocol by hand, correctly or not.
type raw struct {
	t    testing.TB
	nc   net.Conn
	dec  *capnp.Decoder
	conn *vat.Conn // the other side
	*world
}

func newRaw(t testing.TB, limits vat.Limits) *raw {
	t.Helper()
	a, b := sockets(t)
	w := newWorld()
	c := vat.NewConn(b, vat.Options{Bootstrap: vat.Serve(w.table, w), Limits: limits, Logf: func(string, ...any) {}})
	r := &raw{t, a, capnp.NewDecoder(a), c, w}
	t.Cleanup(func() {
		a.Close()
		c.Close()
		<-c.Done()
		w.drop()
		soon(t, func() bool { return w.live.Load() == 0 }, "objects leaked")
		noGoroutines(t)
	})
	return r
}

func (r *raw) send(fill func(rpc.Message) error) {
	r.t.Helper()
	msg, seg := capnp.NewSingleSegmentMessage(nil)
	root, err := rpc.NewRootMessage(seg)
	vat.OK(r.t, err)
	vat.OK(r.t, fill(root))
	b, err := msg.Marshal()
	vat.OK(r.t, err)
	_ = r.nc.SetWriteDeadline(time.Now().Add(patience))
	_, _ = r.nc.Write(b) // it may have hung up already
}

// recv returns the next message; ok is false when the connection ended.
func (r *raw) recv() (m rpc.Message, ok bool) {
	r.t.Helper()
	_ = r.nc.SetReadDeadline(time.Now().Add(patience))
	msg, err := r.dec.Decode()
	if err != nil {
		if errors.Is(err, os.ErrDeadlineExceeded) {
			r.t.Fatal("no message within 5 s")
		}
		return m, false
	}
	m, err = rpc.ReadRootMessage(msg)
	vat.OK(r.t, err)
	return m, true
}

func (r *raw) expect(which rpc.Message_Which) rpc.Message {
	r.t.Helper()
	m, ok := r.recv()
	if !ok {
		r.t.Fatal("the connection has ended")
	}
	if got := m.Which(); got != which {
		r.t.Fatalf("m.Which() = %v, want %v", got, which)
	}
	return m
}

// aborted reads until the connection ends, and reports the Abort's reason.
func (r *raw) aborted() string {
	r.t.Helper()
	reason := ""
	for {
		m, ok := r.recv()
		if !ok {
			return reason
		}
		if m.Which() == rpc.Message_Which_abort {
			e, _ := m.Abort()
			reason, _ = e.Reason()
		}
	}
}

func (r *raw) bootstrap(q uint32) {
	r.send(func(m rpc.Message) error {
		b, err := m.NewBootstrap()
		b.SetQuestionId(q)
		return err
	})
}

type callOpt func(rpc.Call) error

// call makes a call; opts fill in target and parameters.
func (r *raw) call(q uint32, iface uint64, method uint16, opts ...callOpt) {
	r.t.Helper()
	r.send(func(m rpc.Message) error {
		c, err := m.NewCall()
		if err != nil {
			return err
		}
		c.SetQuestionId(q)
		c.SetInterfaceId(iface)
		c.SetMethodId(method)
		for _, o := range opts {
			if err := o(c); err != nil {
				return err
			}
		}
		return nil
	})
}

func toExport(id uint32) callOpt {
	return func(c rpc.Call) error {
		t, err := c.NewTarget()
		if err == nil {
			t.SetImportedCap(id)
		}
		return err
	}
}

func toAnswer(q uint32, path ...uint16) callOpt {
	return func(c rpc.Call) error {
		t, err := c.NewTarget()
		if err != nil {
			return err
		}
		return promised(t.NewPromisedAnswer())(q, path)
	}
}

func promised(pa rpc.PromisedAnswer, err error) func(uint32, []uint16) error {
	return func(q uint32, path []uint16) error {
		if err != nil {
			return err
		}
		pa.SetQuestionId(q)
		ops, err := pa.NewTransform(int32(len(path)))
		for i, p := range path {
			ops.At(i).SetGetPointerField(p)
		}
		return err
	}
}

// params allocates the parameters and a capability table.
func params(size capnp.ObjectSize, caps int32, fill func(capnp.Struct, rpc.CapDescriptor_List) error) callOpt {
	return func(c rpc.Call) error {
		p, err := c.NewParams()
		if err != nil {
			return err
		}
		s, err := capnp.NewStruct(p.Segment(), size)
		if err != nil {
			return err
		}
		if err := p.SetContent(s.ToPtr()); err != nil {
			return err
		}
		var l rpc.CapDescriptor_List
		if caps > 0 {
			if l, err = p.NewCapTable(caps); err != nil {
				return err
			}
		}
		return fill(s, l)
	}
}

// capParam is one parameter: pointer 0 is the capability 0, which desc describes.
func capParam(desc func(rpc.CapDescriptor) error) callOpt {
	return params(capnp.ObjectSize{DataSize: 8, PointerCount: 1}, 1, func(s capnp.Struct, l rpc.CapDescriptor_List) error {
		if err := s.SetPtr(0, capnp.NewInterface(s.Segment(), 0).ToPtr()); err != nil {
			return err
		}
		return desc(l.At(0))
	})
}

func (r *raw) finish(q uint32, releaseCaps bool) {
	r.send(func(m rpc.Message) error {
		f, err := m.NewFinish()
		f.SetQuestionId(q)
		f.SetReleaseResultCaps(releaseCaps)
		return err
	})
}

func (r *raw) release(id, n uint32) {
	r.send(func(m rpc.Message) error {
		f, err := m.NewRelease()
		f.SetId(id)
		f.SetReferenceCount(n)
		return err
	})
}

// boot gets the bootstrap capability and returns its number.
func (r *raw) boot() uint32 {
	r.t.Helper()
	r.bootstrap(1000)
	return r.returned(1000)
}

// returned reads a Return for q with one capability, and its number.
func (r *raw) returned(q uint32) uint32 {
	r.t.Helper()
	ret, err := r.expect(rpc.Message_Which_return).Return()
	vat.OK(r.t, err)
	if got := ret.AnswerId(); got != q {
		r.t.Fatalf("ret.AnswerId() = %d, want %d", got, q)
	}
	if got := ret.Which(); got != rpc.Return_Which_results {
		r.t.Fatalf("ret.Which() = %v, want %v", got, rpc.Return_Which_results)
	}
	p, err := ret.Results()
	vat.OK(r.t, err)
	l, err := p.CapTable()
	vat.OK(r.t, err)
	if got := l.Len(); got != 1 {
		r.t.Fatalf("l.Len() = %d, want 1", got)
	}
	return l.At(0).SenderHosted()
}

// descriptor reads a Return for q, and returns the descriptor of its first capability.
func (r *raw) descriptor(q uint32) rpc.CapDescriptor {
	r.t.Helper()
	ret, err := r.expect(rpc.Message_Which_return).Return()
	vat.OK(r.t, err)
	if got := ret.AnswerId(); got != q {
		r.t.Fatalf("ret.AnswerId() = %d, want %d", got, q)
	}
	p, err := ret.Results()
	vat.OK(r.t, err)
	l, err := p.CapTable()
	vat.OK(r.t, err)
	return l.At(0)
}

// get calls a method of Server that returns one capability.
func (r *raw) get(q uint32, boot uint32, method uint16) uint32 {
	r.t.Helper()
	r.call(q, tp.Server_TypeID, method, toExport(boot))
	return r.returned(q)
}

// exception reads a Return for q that is an exception.
func (r *raw) exception(q uint32) string {
	r.t.Helper()
	ret, err := r.expect(rpc.Message_Which_return).Return()
	vat.OK(r.t, err)
	if got := ret.AnswerId(); got != q {
		r.t.Fatalf("ret.AnswerId() = %d, want %d", got, q)
	}
	if got := ret.Which(); got != rpc.Return_Which_exception {
		r.t.Fatalf("ret.Which() = %v, want %v", got, rpc.Return_Which_exception)
	}
	e, err := ret.Exception()
	vat.OK(r.t, err)
	s, err := e.Reason()
	vat.OK(r.t, err)
	return s
}
