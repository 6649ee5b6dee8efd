package vat_test

import (
	"errors"
	"net"
	"testing"

	"capd/meter"
	"capd/vat"
	tp "capd/vat/internal/testproto"
)

// waiter has methods that have to wait for the caller.
type waiter struct{}

var waiterTable = vat.NewTable(
	vat.Handle(tp.Echo_data, func(_ *waiter, c vat.Call[tp.Echo_data_Params, tp.Echo_data_Results]) error {
		_, err := c.ResultsFor(int(c.Params().Size()))
		return err
	}),
	vat.Handle(bothMethod, func(_ *waiter, c vat.Call[vat.Empty, both]) error {
		_, err := c.Data(0, 1<<20)
		return err
	}),
	vat.Handle(tp.Server_hold, func(_ *waiter, c vat.Call[tp.Server_hold_Params, tp.Server_hold_Results]) error {
		return vat.Do(c.Context(), c.Caps().Get(c.Params().Cap()), tp.Stream_done, nil, nil)
	}),
	vat.Handle(tp.Echo_cap, func(_ *waiter, c vat.Call[tp.Echo_cap_Params, tp.Echo_cap_Results]) error {
		sink := c.Caps().Get(c.Params().Cap())
		for range 2 {
			vat.Send(c.Context(), sink, tp.Stream_write, nil).Release()
		}
		return sink.Drain(c.Context())
	}),
)

// A guest with the greatest number of waiting calls is told that there is a limit, whatever the next call would wait for.
// It is not told that it has cancelled the call.
func TestTooManyWait(t *testing.T) {
	m := meter.NewHost(nil).Grant("g", meter.Limits{meter.Waits: 1, meter.ReplyBytes: 1 << 20})
	vat.OK(t, m.Take(meter.Waits, 1))
	vat.OK(t, m.Take(meter.ReplyBytes, 1<<20))
	a, b := net.Pipe()
	server := vat.NewConn(a, vat.Options{Bootstrap: vat.Serve(waiterTable, &waiter{}), Meter: m, Limits: vat.Limits{StreamBytes: 1}})
	client := vat.NewConn(b, vat.Options{})
	defer server.Close()
	defer client.Close()
	c := client.Bootstrap(t.Context())
	defer c.Release()
	hold := make(chan struct{})
	defer close(hold)
	sink := vat.Serve(vat.NewTable(
		vat.Handle(tp.Stream_write, func(*waiter, vat.Call[tp.Stream_write_Params, vat.Empty]) error { <-hold; return nil }),
		vat.Handle(tp.Stream_done, func(*waiter, vat.Call[tp.Stream_done_Params, tp.Stream_done_Results]) error { <-hold; return nil }),
	), &waiter{})
	defer sink.Release()
	for name, call := range map[string]func() error{
		"room for results": func() error {
			return vat.Do(t.Context(), c, tp.Echo_data, func(p tp.Echo_data_Params, _ *vat.Caps) error { p.SetSize(1 << 20); return nil }, nil)
		},
		"room for data": func() error { return vat.Do(t.Context(), c, bothMethod, nil, nil) },
		"an answer": func() error {
			return vat.Do(t.Context(), c, tp.Server_hold, func(p tp.Server_hold_Params, caps *vat.Caps) error {
				return p.SetCap(caps.Put(sink.AddRef()))
			}, nil)
		},
		"the window of a stream": func() error {
			return vat.Do(t.Context(), c, tp.Echo_cap, func(p tp.Echo_cap_Params, caps *vat.Caps) error {
				return p.SetCap(caps.Put(sink.AddRef()))
			}, nil)
		},
	} {
		t.Run(name, func(t *testing.T) {
			var e *vat.Exception
			if err := call(); !errors.As(err, &e) {
				t.Fatalf("call(): %v, want a %T", err, e)
			}
			if e.Type != vat.Overloaded {
				t.Errorf("e.Type = %v, want %v", e.Type, vat.Overloaded)
			}
			if want := "limit: this grant holds all of its 1 calls that wait for a guest (limit waits); let some end, or ask its giver for more"; e.Reason != want {
				t.Errorf("e.Reason = %q, want %q", e.Reason, want)
			}
		})
	}
}
