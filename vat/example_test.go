package vat_test

import (
	"context"
	"fmt"
	"net"

	"capd/meter"
	"capd/vat"
	tp "capd/vat/internal/testproto"
)

// A greeter answers the interface Echo, whose schema is
//
//	interface Echo {
//	  echo @0 (text :Text) -> (text :Text);
//	}
type greeter struct{ greeting string }

func (g *greeter) echo(c vat.Call[tp.Echo_echo_Params, tp.Echo_echo_Results]) error {
	name, err := c.Params().Text()
	if err != nil {
		return err
	}
	return c.Results().SetText(g.greeting + ", " + name)
}

// Each method has one line. This one cannot block, so it may run on the goroutine that reads the connection.
var greeterTable = vat.NewTable(
	vat.Handle(tp.Echo_echo, (*greeter).echo, vat.Inline()),
)

// A host gives its peer one capability, the bootstrap. The peer calls it.
func Example() {
	here, there := net.Pipe() // or the two ends of a socket
	host := vat.NewConn(here, vat.Options{Bootstrap: vat.Serve(greeterTable, &greeter{"Hello"})})
	defer host.Close()
	guest := vat.NewConn(there, vat.Options{})
	defer guest.Close()

	ctx := context.Background()
	g := guest.Bootstrap(ctx)
	defer g.Release()
	err := vat.Do(ctx, g, tp.Echo_echo,
		func(p tp.Echo_echo_Params, _ *vat.Caps) error { return p.SetText("world") },
		func(r tp.Echo_echo_Results, _ *vat.Caps) error {
			text, err := r.Text()
			fmt.Println(text)
			return err
		})
	if err != nil {
		fmt.Println(err)
	}
	// Output: Hello, world
}

// A switchboard answers Server.invoke, whose schema is
//
//	invoke @3 (callback :Callback, n :UInt32) -> (n :UInt32);
//
// by calling what it was given.
type switchboard struct{}

func (*switchboard) invoke(c vat.Call[tp.Server_invoke_Params, tp.Server_invoke_Results]) error {
	callback := c.Caps().Get(c.Params().Callback()) // borrowed: AddRef would keep it
	return vat.Do(c.Context(), callback, tp.Callback_call,
		func(p tp.Callback_call_Params, _ *vat.Caps) error { p.SetN(c.Params().N()); return nil },
		func(got tp.Callback_call_Results, _ *vat.Caps) error {
			c.Results().SetN(got.N())
			return nil
		})
}

// It waits for its caller: neither Inline nor Serial.
var switchboardTable = vat.NewTable(vat.Handle(tp.Server_invoke, (*switchboard).invoke))

// doubler is the caller's callback.
type doubler struct{}

var doublerTable = vat.NewTable(
	vat.Handle(tp.Callback_call, func(_ *doubler, c vat.Call[tp.Callback_call_Params, tp.Callback_call_Results]) error {
		c.Results().SetN(2 * c.Params().N())
		return nil
	}, vat.Inline()),
)

// A host that listens has one root for everybody, limits for each connection, and one meter for all of them. Over TLS it
// would use vat.NewConn(tls.Server(vat.Gather(nc), config), options), and tls.Client at the other end.
func Example_listen() {
	l, err := net.Listen("tcp", "127.0.0.1:0") // or "unix"
	if err != nil {
		fmt.Println(err)
		return
	}
	root := vat.Serve(switchboardTable, &switchboard{})
	guests := meter.NewHost(nil).Grant("everybody", nil)
	go func() {
		for {
			nc, err := l.Accept()
			if err != nil {
				root.Release()
				return
			}
			vat.NewConn(nc, vat.Options{Bootstrap: root.AddRef(), Limits: vat.Limits{Exports: 1000}, Meter: guests})
		}
	}()
	defer l.Close()

	nc, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		fmt.Println(err)
		return
	}
	guest := vat.NewConn(nc, vat.Options{})
	defer guest.Close()
	ctx := context.Background()
	host := guest.Bootstrap(ctx)
	defer host.Release()
	err = vat.Do(ctx, host, tp.Server_invoke,
		func(p tp.Server_invoke_Params, c *vat.Caps) error {
			p.SetN(21)
			return p.SetCallback(c.Put(vat.Serve(doublerTable, &doubler{})))
		},
		func(r tp.Server_invoke_Results, _ *vat.Caps) error { fmt.Println(r.N()); return nil })
	if err != nil {
		fmt.Println(err)
	}
	// Output: 42
}

// Calls on the result of a call are sent at once: three calls, one round trip.
func ExampleAnswer_Cap() {
	here, there := net.Pipe()
	w := newWorld()
	host := vat.NewConn(here, vat.Options{Bootstrap: vat.Serve(w.table, w)})
	defer host.Close()
	guest := vat.NewConn(there, vat.Options{})
	defer guest.Close()

	ctx := context.Background()
	server := guest.Bootstrap(ctx)
	defer server.Release()
	first := vat.Send(ctx, server, tp.Server_chain, nil)
	defer first.Release()
	chain := first.Cap(tp.Server_chain_Results_chain) // of an answer that has not come
	defer chain.Release()
	second := vat.Send(ctx, chain, tp.Chain_next, nil)
	defer second.Release()
	next := second.Cap(tp.Chain_next_Results_chain)
	defer next.Release()
	depth, err := depthOf(ctx, next) // the only wait
	fmt.Println(depth, err)
	// Output: 1 <nil>
}

// Streaming calls run ahead of their answers, within a window. Drain waits for the last one and returns the first
// failure.
func ExampleCap_Drain() {
	here, there := net.Pipe()
	w := newWorld()
	host := vat.NewConn(here, vat.Options{Bootstrap: vat.Serve(w.table, w)})
	defer host.Close()
	guest := vat.NewConn(there, vat.Options{})
	defer guest.Close()

	ctx := context.Background()
	server := guest.Bootstrap(ctx)
	defer server.Release()
	a := vat.Send(ctx, server, tp.Server_stream, nil)
	defer a.Release()
	stream := a.Cap(tp.Server_stream_Results_stream)
	defer stream.Release()
	chunk := make([]byte, 64<<10)
	for range 100 {
		vat.Send(ctx, stream, tp.Stream_write, func(_ tp.Stream_write_Params, c *vat.Caps) error {
			return c.SetData(tp.Stream_write_Params_data, chunk) // the one copy that is made of it
		}).Release()
	}
	if err := stream.Drain(ctx); err != nil {
		fmt.Println(err)
	}
	err := vat.Do(ctx, stream, tp.Stream_done, nil, func(r tp.Stream_done_Results, _ *vat.Caps) error {
		fmt.Println(r.Bytes()>>10, "KiB")
		return nil
	})
	if err != nil {
		fmt.Println(err)
	}
	// Output: 6400 KiB
}
