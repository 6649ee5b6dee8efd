package vat_test

import (
	"bytes"
	"net"
	"sync"
	"testing"
	"time"

	"capd/vat"
	tp "capd/vat/internal/testproto"
)

// A recorder keeps what was written to a connection.
type recorder struct {
	net.Conn
	mu  sync.Mutex
	buf bytes.Buffer
}

func (r *recorder) Write(b []byte) (int, error) {
	r.mu.Lock()
	r.buf.Write(b)
	r.mu.Unlock()
	return r.Conn.Write(b)
}

// honest returns what a well-behaved client writes that uses every kind of message.
func honest(t testing.TB) []byte {
	t.Helper()
	a, b := net.Pipe()
	rec := &recorder{Conn: a}
	w := newWorld()
	server := vat.NewConn(b, vat.Options{Bootstrap: vat.Serve(w.table, w)})
	client := vat.NewConn(rec, vat.Options{})
	ctx := t.Context()
	boot := client.Bootstrap(ctx)
	first := vat.Send(ctx, boot, tp.Server_chain, nil)
	c := first.Cap(tp.Server_chain_Results_chain)
	next := vat.Send(ctx, c, tp.Chain_next, nil)
	d := next.Cap(tp.Chain_next_Results_chain)
	_, err := depthOf(ctx, d)
	vat.OK(t, err)
	cb := vat.Serve(callbackTable, &callbackObj{func(n uint32) uint32 { return n }, make(chan struct{})})
	vat.OK(t, vat.Do(ctx, boot, tp.Server_invoke, func(q tp.Server_invoke_Params, caps *vat.Caps) error {
		return q.SetCallback(caps.Put(cb.AddRef()))
	}, nil))
	// Pipelined calls on its own capability: an embargo.
	e := vat.Send(ctx, boot, tp.Server_echo, nil)
	ec := e.Cap(0)
	back := vat.Send(ctx, ec, tp.Echo_cap, func(q tp.Echo_cap_Params, caps *vat.Caps) error { return q.SetCap(caps.Put(cb.AddRef())) })
	cb2 := back.Cap(0)
	vat.OK(t, vat.Do(ctx, cb2, tp.Callback_call, nil, nil))
	vat.OK(t, vat.Do(ctx, boot, tp.Server_hold, func(q tp.Server_hold_Params, caps *vat.Caps) error {
		return q.SetCap(caps.Put(d.AddRef()))
	}, nil))
	for _, a := range []interface{ Release() }{first, next, e, back, c, d, ec, cb, cb2, boot} {
		a.Release()
	}
	time.Sleep(10 * time.Millisecond)
	client.Close()
	<-client.Done()
	<-server.Done()
	w.drop()
	rec.mu.Lock()
	defer rec.mu.Unlock()
	return bytes.Clone(rec.buf.Bytes())
}

// FuzzConnection feeds a serving connection arbitrary bytes. It may end the connection; it may not panic, hang
// or leak.
func FuzzConnection(f *testing.F) {
	stream := honest(f)
	f.Add(stream)
	f.Add(stream[:len(stream)/2])
	for i := 0; i+8 < len(stream); {
		size := 8 + 8*int(uint32(stream[i+4])|uint32(stream[i+5])<<8)
		if i+size > len(stream) {
			break
		}
		f.Add(stream[i : i+size])
		i += size
	}
	f.Add([]byte{0, 0, 0, 0, 0xff, 0xff, 0xff, 0xff})
	f.Add([]byte{0xff, 0xff, 0xff, 0xff, 0, 0, 0, 0})
	f.Fuzz(func(t *testing.T, b []byte) {
		w := newWorld()
		feed(t, w, b, time.Second)
		soon(t, func() bool {
			w.drop() // again and again: a handler that was about to run may hold something yet
			return w.live.Load() == 0
		}, "objects leaked")
	})
}
