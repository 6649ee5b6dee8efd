package vat_test

import (
	"net"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"capd/meter"
	"capd/vat"
	tp "capd/vat/internal/testproto"
)

// halting is a connection from which nothing is read after halt is set, until it is closed.
type halting struct {
	net.Conn
	halt   atomic.Bool
	closed chan struct{}
}

func (h *halting) Read(p []byte) (int, error) {
	if h.halt.Load() {
		<-h.closed
		return 0, net.ErrClosed
	}
	return h.Conn.Read(p)
}

func (h *halting) Close() error {
	select {
	case <-h.closed:
	default:
		close(h.closed)
	}
	return h.Conn.Close()
}

// A call may be first in line for the bytes of its grant while its own guest has stopped reading. Then calls of the
// grant's other connections go first.
func TestWhoDoesNotReadHoldsNobodyUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const room = 1 << 20
		m := meter.NewHost(nil).Grant("g", meter.Limits{meter.ReplyBytes: room})
		vat.OK(t, m.Take(meter.ReplyBytes, room))
		dial := func() (*halting, *vat.Cap) {
			a, b := net.Pipe()
			server := vat.NewConn(a, vat.Options{Bootstrap: vat.Serve(waiterTable, &waiter{}), Meter: m, Limits: vat.Limits{ParkedBytes: room}})
			h := &halting{Conn: b, closed: make(chan struct{})}
			client := vat.NewConn(h, vat.Options{})
			t.Cleanup(func() { client.Close(); server.Close() })
			return h, client.Bootstrap(t.Context())
		}
		ask := func(c *vat.Cap, size uint32) {
			_ = vat.Do(t.Context(), c, tp.Echo_data, func(p tp.Echo_data_Params, _ *vat.Caps) error { p.SetSize(size); return nil }, nil)
		}
		var met atomic.Bool
		h, halted := dial()
		_, other := dial()
		go ask(halted, room)
		synctest.Wait() // it is the first in line
		go func() { ask(other, room); met.Store(true) }()
		synctest.Wait()
		h.halt.Store(true)
		for range 2 { // the client was reading already
			go ask(halted, 1)
			synctest.Wait()
		}
		m.Give(meter.ReplyBytes, room)
		synctest.Wait()
		if !met.Load() {
			t.Error("there is room, and a call still waits behind one whose guest does not read")
		}
	})
}
