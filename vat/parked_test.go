package vat_test

import (
	"encoding/binary"
	"io"
	"net"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"capnproto.org/go/capnp/v3"
	"capnproto.org/go/capnp/v3/std/capnp/rpc"
	"github.com/stretchr/testify/require"

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
		require.Less(t, ran.Load(), int32(10), "handlers go on")
		for range calls {
			r.come(rpc.Message_Which_return)
		}
		<-sent
		require.EqualValues(t, calls, ran.Load())
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
		require.ErrorAs(t, c.Err(), &broke)

		returns, frame := 0, make([]byte, 8)
		for {
			_, err := io.ReadFull(a, frame[:8])
			require.NoError(t, err, "no Abort after %d returns", returns)
			body := make([]byte, 8*binary.LittleEndian.Uint32(frame[4:]))
			_, err = io.ReadFull(a, body)
			require.NoError(t, err)
			msg, err := capnp.Unmarshal(append(frame[:8:8], body...))
			require.NoError(t, err)
			m, err := rpc.ReadRootMessage(msg)
			require.NoError(t, err)
			if m.Which() == rpc.Message_Which_abort {
				x, _ := m.Abort()
				reason, _ := x.Reason()
				require.Equal(t, "limit: the peer reads too slowly", reason)
				break
			}
			returns++
		}
		require.LessOrEqual(t, returns, 1)
		_, err := a.Read(frame)
		require.ErrorIs(t, err, io.EOF)
		<-c.Done()
	})
}
