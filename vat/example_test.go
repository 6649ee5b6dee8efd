package vat_test

import (
	"context"
	"fmt"
	"net"

	"capd/vat"
	tp "capd/vat/internal/testproto"
)

// A greeter answers the interface Echo, of which the schema is
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
	r, err := c.Results()
	if err != nil {
		return err
	}
	return r.SetText(g.greeting + ", " + name)
}

// One line for each method. It cannot block, so that it may run where the connection is read.
var greeterTable = vat.NewTable(
	vat.Handle(tp.Echo_echo, (*greeter).echo, vat.Inline()),
)

// A host gives its peer one capability, the bootstrap; the peer calls it.
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

// Calls on what a call will answer leave at once: three calls, one round trip.
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

// Streaming calls run ahead of their answers, within a window; Drain waits for the last, and tells the first failure.
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
