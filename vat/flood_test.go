package vat_test

import (
	"encoding/binary"
	"net"
	"runtime"
	"testing"
	"time"

	"capnproto.org/go/capnp/v3"
	"capnproto.org/go/capnp/v3/std/capnp/rpc"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

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
		require.NoError(t, err)
		raws = append(raws, a)
	}
	time.Sleep(20 * time.Millisecond)
	runtime.ReadMemStats(&after)
	assert.Less(t, int64(after.HeapAlloc)-int64(before.HeapAlloc), int64(40<<20), "memory follows the bytes that arrive")
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
	assert.Less(t, peak, int64(80<<20))
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
	assert.Len(t, held, 18) // beside the bootstrap and c
	require.Error(t, refused)
	assert.Regexp(t, "^limit", refused.Error())
	soon(t, func() bool { return p.live.Load() == 19 }, "refused capabilities stay")
	many := vat.Do(t.Context(), p.boot, tp.Server_many, func(q tp.Server_many_Params, _ *vat.Caps) error { q.SetN(50); return nil }, nil)
	assert.Error(t, many)
	n, err := depthOf(t.Context(), held[0])
	require.NoError(t, err, "everything else goes on")
	assert.EqualValues(t, 1, n)
	for _, h := range held {
		h.Release()
	}
	soon(t, func() bool { return p.live.Load() == 1 }, "released capabilities stay")
	_, err = depthOf(t.Context(), c)
	require.NoError(t, err)
	a := vat.Send(t.Context(), c, tp.Chain_next, nil)
	_, _, err = a.Await(t.Context())
	assert.NoError(t, err, "there is room again")
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
	assert.Contains(t, r.aborted(), "limit")
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
	assert.Regexp(t, "^limit", r.exception(20))
	assert.NoError(t, r.conn.Err())
}

func TestSlowLoris(t *testing.T) {
	r := newRaw(t, vat.Limits{FrameTimeout: 50 * time.Millisecond})
	r.boot()
	_, _ = r.nc.Write([]byte{0, 0})
	assert.Contains(t, r.aborted(), "too long")
}

func TestHandshakeTimeout(t *testing.T) {
	r := newRaw(t, vat.Limits{HandshakeTimeout: 50 * time.Millisecond})
	assert.Contains(t, r.aborted(), "too long")
}
