package vat_test

import (
	"encoding/binary"
	"net"
	"runtime"
	"strings"
	"testing"
	"time"

	"capnproto.org/go/capnp/v3"
	"capnproto.org/go/capnp/v3/std/capnp/rpc"

	"capd/vat"
	tp "capd/vat/internal/testproto"
)

func TestHeadersOnManyConnections(t *testing.T) {
	w := newWorld()
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	var conns []*vat.Conn
	var raws []net.Conn
	for range 100 {
		a, b := net.Pipe()
		conns = append(conns, vat.NewConn(b, vat.Options{Bootstrap: vat.Serve(w.table, w)}))
		var h [8]byte
		binary.LittleEndian.PutUint32(h[4:], 1<<20) // 8 MiB announced
		_, err := a.Write(h[:])
		vat.OK(t, err)
		raws = append(raws, a)
	}
	time.Sleep(20 * time.Millisecond)
	runtime.ReadMemStats(&after)
	if got := int64(after.HeapAlloc) - int64(before.HeapAlloc); got >= int64(40<<20) {
		t.Errorf("the heap grew by %d bytes, want less than %d: memory follows the bytes that arrive", got, int64(40<<20))
	}
	for i := range conns {
		raws[i].Close()
		<-conns[i].Done()
	}
	noGoroutines(t)
}

func TestRepliesNeverRead(t *testing.T) {
	r := newRaw(t, vat.Limits{})
	e := r.get(1, r.boot(), 0)
	sent := make(chan struct{})
	go func() {
		defer close(sent)
		for i := range uint32(2000) {
			_ = r.nc.SetWriteDeadline(time.Now().Add(300 * time.Millisecond))
			msg, seg := capnp.NewSingleSegmentMessage(nil)
			root, _ := rpc.NewRootMessage(seg)
			c, _ := root.NewCall()
			c.SetQuestionId(100 + i)
			c.SetInterfaceId(tp.Echo_TypeID)
			c.SetMethodId(1)
			_ = toExport(e)(c)
			_ = params(capnp.ObjectSize{DataSize: 8}, 0, func(s capnp.Struct, _ rpc.CapDescriptor_List) error {
				s.SetUint32(0, 1<<20)
				return nil
			})(c)
			b, _ := msg.Marshal()
			if _, err := r.nc.Write(b); err != nil {
				return
			}
		}
	}()
	peak := int64(0)
	for done := false; !done; {
		select {
		case <-sent:
			done = true
		case <-time.After(time.Millisecond):
		}
		peak = max(peak, r.conn.Stats().ParkedBytes)
	}
	time.Sleep(50 * time.Millisecond)
	peak = max(peak, r.conn.Stats().ParkedBytes)
	t.Logf("parked at most %d KiB", peak>>10)
	if peak >= int64(80<<20) {
		t.Errorf("peak = %d, want less than %d", peak, int64(80<<20))
	}
}

func TestExportsLimit(t *testing.T) {
	p := connect(t, vat.Limits{Exports: 20})
	c := p.root(t)
	defer c.Release()
	var held []*vat.Cap
	var refused error
	for range 40 {
		a := vat.Send(t.Context(), c, tp.Chain_next, nil)
		_, _, err := a.Await(t.Context())
		if err == nil {
			held = append(held, a.Cap(tp.Chain_next_Results_chain))
		} else {
			refused = err
		}
		a.Release()
	}
	if len(held) != 18 {
		t.Errorf("%d capabilities are held, want 18 beside the bootstrap and c", len(held))
	}
	if refused == nil {
		t.Fatal("none of 40 capabilities was refused")
	}
	if got := refused.Error(); !strings.HasPrefix(got, "limit") {
		t.Errorf("refused.Error() = %q, want it to begin with %q", got, "limit")
	}
	soon(t, func() bool { return p.live.Load() == 19 }, "refused capabilities stay")
	many := vat.Do(t.Context(), p.boot, tp.Server_many, func(q tp.Server_many_Params, _ *vat.Caps) error { q.SetN(50); return nil }, nil)
	if many == nil {
		t.Error("50 capabilities in one answer were not refused")
	}
	n, err := depthOf(t.Context(), held[0])
	if err != nil {
		t.Fatalf("depthOf: %v: everything else goes on", err)
	}
	if n != 1 {
		t.Errorf("n = %d, want 1", n)
	}
	for _, h := range held {
		h.Release()
	}
	soon(t, func() bool { return p.live.Load() == 1 }, "released capabilities stay")
	_, err = depthOf(t.Context(), c)
	vat.OK(t, err)
	a := vat.Send(t.Context(), c, tp.Chain_next, nil)
	_, _, err = a.Await(t.Context())
	if err != nil {
		t.Errorf("a.Await: %v: there is room again", err)
	}
	a.Release()
}

func TestFloodOfBootstraps(t *testing.T) {
	const most = 1000
	r := newRaw(t, vat.Limits{Answers: most})
	go func() {
		for i := range uint32(most) {
			r.bootstrap(i)
		}
	}()
	for range most {
		r.expect(rpc.Message_Which_return)
	}
	// Everything was read, so nothing is queued before the Abort, and even a slow reader gets it.
	for i := range uint32(10) {
		r.bootstrap(most + i)
	}
	if got := r.aborted(); !strings.Contains(got, "limit") {
		t.Errorf("r.aborted() = %q, want it to contain %q", got, "limit")
	}
}

func TestCallsLimit(t *testing.T) {
	r := newRaw(t, vat.Limits{Calls: 10, Workers: 2})
	e := r.get(1, r.boot(), 0)
	r.finish(1, false)
	for i := range uint32(11) {
		r.call(10+i, tp.Echo_TypeID, 2, toExport(e), params(capnp.ObjectSize{DataSize: 8}, 0, func(s capnp.Struct, _ rpc.CapDescriptor_List) error {
			s.SetUint32(0, 60_000)
			return nil
		}))
	}
	if got := r.exception(20); !strings.HasPrefix(got, "limit") {
		t.Errorf("r.exception(20) = %q, want it to begin with %q", got, "limit")
	}
	if err := r.conn.Err(); err != nil {
		t.Errorf("r.conn.Err(): %v", err)
	}
}

func TestSlowLoris(t *testing.T) {
	r := newRaw(t, vat.Limits{FrameTimeout: 50 * time.Millisecond})
	r.boot()
	_, _ = r.nc.Write([]byte{0, 0})
	if got := r.aborted(); !strings.Contains(got, "too long") {
		t.Errorf("r.aborted() = %q, want it to contain %q", got, "too long")
	}
}

func TestHandshakeTimeout(t *testing.T) {
	r := newRaw(t, vat.Limits{HandshakeTimeout: 50 * time.Millisecond})
	if got := r.aborted(); !strings.Contains(got, "too long") {
		t.Errorf("r.aborted() = %q, want it to contain %q", got, "too long")
	}
}
