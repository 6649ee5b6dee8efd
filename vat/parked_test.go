package vat_test

import (
	"encoding/binary"
	"errors"
	"io"
	"net"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"capnproto.org/go/capnp/v3"
	"capnproto.org/go/capnp/v3/std/capnp/rpc"

	"capd/vat"
	tp "capd/vat/internal/testproto"
)

// While a peer does not read its answers, no more are made: no further handler starts.
func TestParkedBytesStopHandlers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, b := net.Pipe()
		var ran atomic.Int32
		table := vat.NewTable(vat.Handle(tp.Echo_data, func(_ *struct{}, c vat.Call[tp.Echo_data_Params, tp.Echo_data_Results]) error {
			ran.Add(1)
			return c.Results().SetData(make([]byte, 50_000))
		}))
		c := vat.NewConn(b, vat.Options{Bootstrap: vat.Serve(table, &struct{}{}), Limits: vat.Limits{ParkedBytes: 200_000, Workers: 1}})
		r := &raw{t: t, nc: a, dec: capnp.NewDecoder(a), conn: c}
		boot := r.boot()
		const calls = 40
		sent := make(chan struct{})
		go func() {
			defer close(sent)
			for q := range uint32(calls) {
				r.call(q, tp.Echo_TypeID, tp.Echo_data.ID, toExport(boot))
			}
		}()
		synctest.Wait()
		if got := ran.Load(); got >= 10 {
			t.Fatalf("ran.Load() = %d, want less than 10: handlers go on", got)
		}
		for range calls {
			r.come(rpc.Message_Which_return)
		}
		<-sent
		if got := ran.Load(); got != calls {
			t.Fatalf("ran.Load() = %d, want %d", got, calls)
		}
		a.Close()
		<-c.Done()
	})
}

// A peer that reads again too late is told why the connection has ended. This comes in a frame of its own after the frame
// that it was reading. Everything else that waited is gone.
func TestParkedMax(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, b := net.Pipe()
		gate := make(chan struct{})
		table := vat.NewTable(vat.Handle(tp.Echo_data, func(_ *struct{}, c vat.Call[tp.Echo_data_Params, tp.Echo_data_Results]) error {
			<-gate
			return c.Results().SetData(make([]byte, 60_000))
		}))
		c := vat.NewConn(b, vat.Options{
			Bootstrap: vat.Serve(table, &struct{}{}),
			Limits:    vat.Limits{ParkedBytes: 1 << 20, ParkedMax: 1<<20 + 64<<10},
		})
		r := &raw{t: t, nc: a, dec: capnp.NewDecoder(a), conn: c}
		boot := r.boot()
		for q := range uint32(30) { // they begin before anything is parked
			r.call(q, tp.Echo_TypeID, tp.Echo_data.ID, toExport(boot))
		}
		synctest.Wait()
		gate <- struct{}{} // one that is written while the others are parked
		synctest.Wait()
		close(gate)
		synctest.Wait()
		var broke *vat.ProtocolError
		if err := c.Err(); !errors.As(err, &broke) {
			t.Fatalf("c.Err(): %v, want a %T", err, broke)
		}

		returns, frame := 0, make([]byte, 8)
		for {
			_, err := io.ReadFull(a, frame[:8])
			if err != nil {
				t.Fatalf("no Abort after %d returns: %v", returns, err)
			}
			body := make([]byte, 8*binary.LittleEndian.Uint32(frame[4:]))
			_, err = io.ReadFull(a, body)
			vat.OK(t, err)
			msg, err := capnp.Unmarshal(append(frame[:8:8], body...))
			vat.OK(t, err)
			m, err := rpc.ReadRootMessage(msg)
			vat.OK(t, err)
			if m.Which() == rpc.Message_Which_abort {
				x, _ := m.Abort()
				reason, _ := x.Reason()
				if want := "limit: the peer reads too slowly"; reason != want {
					t.Fatalf("reason = %q, want %q", reason, want)
				}
				break
			}
			returns++
		}
		if returns > 1 {
			t.Fatalf("returns = %d, want at most 1", returns)
		}
		_, err := a.Read(frame)
		if !errors.Is(err, io.EOF) {
			t.Fatalf("a.Read: %v, want %v", err, io.EOF)
		}
		<-c.Done()
	})
}
