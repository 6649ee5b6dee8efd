//go:build !alone

package peers

import (
	"context"
	"net"
	"os"
	"path/filepath"

	"capnproto.org/go/capnp/v3"
	"capnproto.org/go/capnp/v3/flowcontrol"
	"capnproto.org/go/capnp/v3/rpc" //nolint:depguard // it is measured here, and faces nobody

	"capd/bench/gocapnp/proto"
	"capd/bench/load"
	"capd/vat"
)

// GoCapnp is go-capnp's own RPC.
var GoCapnp = &Contender{
	Name:    "go-capnp",
	About:   "capnproto.org/go/capnp/v3/rpc at both ends",
	Ops:     capnpOps,
	OpsTLS:  capnpOps,
	Version: moduleVersion("capnproto.org/go/capnp/v3"),
	Serve: func(p Place, l net.Listener) error {
		table, err := load.ReadTable(p.Table)
		if err != nil {
			return err
		}
		f, err := os.Open(filepath.Join(p.Tree, load.TableFile))
		if err != nil {
			return err
		}
		s := &goServer{table, f}
		return accept(l, func(conn net.Conn) {
			rpc.NewConn(rpc.NewStreamTransport(conn), &rpc.Options{BootstrapClient: capnp.Client(proto.Bench_ServerToClient(s))})
		})
	},
	Client: newGoClient,
}

// GoCapnpOnVat is go-capnp's client on package vat's server.
var GoCapnpOnVat = &Contender{
	Name:    "go-capnp→vat",
	About:   "go-capnp's client on capd/vat's server",
	Ops:     capnpOps,
	Ours:    true,
	Version: moduleVersion("capnproto.org/go/capnp/v3"),
	Beneath: vat.Gather,
	Serve:   serveVat,
	Client:  newGoClient,
}

type goServer struct {
	table []byte
	file  *os.File
}

type goSink struct{ sum uint32 }

func (s *goServer) Echo(_ context.Context, c proto.Bench_echo) error {
	b, err := c.Args().Data()
	if err != nil {
		return err
	}
	r, err := c.AllocResults()
	if err != nil {
		return err
	}
	return r.SetData(b)
}

func (s *goServer) Read(_ context.Context, c proto.Bench_read) error {
	r, err := c.AllocResults()
	if err != nil {
		return err
	}
	off := c.Args().Offset()
	return r.SetData(s.table[off : off+c.Args().Length()])
}

func (s *goServer) Pread(_ context.Context, c proto.Bench_pread) error {
	r, err := c.AllocResults()
	if err != nil {
		return err
	}
	l, err := capnp.NewUInt8List(r.Segment(), int32(c.Args().Length()))
	if err != nil {
		return err
	}
	if _, err := s.file.ReadAt(l.ToPtr().Data(), int64(c.Args().Offset())); err != nil {
		return err
	}
	return capnp.Struct(r).SetPtr(0, l.ToPtr())
}

func (s *goServer) Write(_ context.Context, c proto.Bench_write) error {
	b, err := c.Args().Data()
	if err != nil {
		return err
	}
	r, err := c.AllocResults()
	if err != nil {
		return err
	}
	r.SetSum(load.Sum(b))
	return nil
}

func (s *goServer) Next(_ context.Context, c proto.Bench_next) error {
	r, err := c.AllocResults()
	if err != nil {
		return err
	}
	return r.SetNext(proto.Bench_ServerToClient(&goServer{s.table, s.file}))
}

func (s *goServer) Sink(_ context.Context, c proto.Bench_sink) error {
	r, err := c.AllocResults()
	if err != nil {
		return err
	}
	return r.SetSink(proto.Sink_ServerToClient(&goSink{}))
}

func (s *goSink) Write(_ context.Context, c proto.Sink_write) error {
	b, err := c.Args().Data()
	if err != nil {
		return err
	}
	s.sum = load.Add(s.sum, b)
	return nil
}

func (s *goSink) Done(_ context.Context, c proto.Sink_done) error {
	r, err := c.AllocResults()
	if err != nil {
		return err
	}
	r.SetSum(s.sum)
	return nil
}

type goClient struct {
	table []byte
	bench proto.Bench
}

// goWindow is as much as vat's own window.
const goWindow = 4 << 20

func newGoClient(p Place) (load.Client, error) {
	table, err := load.ReadTable(p.Table)
	if err != nil {
		return nil, err
	}
	conn, err := p.Dial(nil)
	if err != nil {
		return nil, err
	}
	bench := proto.Bench(rpc.NewConn(rpc.NewStreamTransport(conn), nil).Bootstrap(context.Background()))
	if err := bench.Resolve(context.Background()); err != nil {
		return nil, err
	}
	bench.SetFlowLimiter(flowcontrol.NewFixedLimiter(goWindow))
	return &goClient{table, bench}, nil
}

func (g *goClient) Op(op string, size int) (func(worker int) func() error, error) {
	ctx := context.Background()
	if op == load.Stream {
		s := load.NewStreamed(g.table, size)
		return func(int) func() error { return func() error { return g.stream(ctx, s) } }, nil
	}
	each, ok := map[string]func(context.Context, proto.Bench, *load.Piece) error{
		load.Echo: goEcho, load.Read: goRead, load.Pread: goPread, load.Write: goWrite,
		load.Chain:    func(ctx context.Context, b proto.Bench, p *load.Piece) error { return goChain(ctx, b, p, true) },
		load.ChainSeq: func(ctx context.Context, b proto.Bench, p *load.Piece) error { return goChain(ctx, b, p, false) },
	}[op]
	if !ok {
		return nil, load.ErrUnsupported
	}
	pieces := load.Pieces(g.table, size)
	return func(worker int) func() error {
		return load.InTurn(pieces, worker, func(p *load.Piece) error { return each(ctx, g.bench, p) })
	}, nil
}

func goEcho(ctx context.Context, bench proto.Bench, p *load.Piece) error {
	f, release := bench.Echo(ctx, func(a proto.Bench_echo_Params) error { return a.SetData(p.Bytes) })
	defer release()
	r, err := f.Struct()
	if err != nil {
		return err
	}
	b, err := r.Data()
	if err != nil {
		return err
	}
	return p.Check(b)
}

func goRead(ctx context.Context, bench proto.Bench, p *load.Piece) error {
	f, release := bench.Read(ctx, func(a proto.Bench_read_Params) error {
		a.SetOffset(p.Offset)
		a.SetLength(uint32(len(p.Bytes)))
		return nil
	})
	defer release()
	r, err := f.Struct()
	if err != nil {
		return err
	}
	b, err := r.Data()
	if err != nil {
		return err
	}
	return p.Check(b)
}

func goPread(ctx context.Context, bench proto.Bench, p *load.Piece) error {
	f, release := bench.Pread(ctx, func(a proto.Bench_pread_Params) error {
		a.SetOffset(p.Offset)
		a.SetLength(uint32(len(p.Bytes)))
		return nil
	})
	defer release()
	r, err := f.Struct()
	if err != nil {
		return err
	}
	b, err := r.Data()
	if err != nil {
		return err
	}
	return p.Check(b)
}

func goWrite(ctx context.Context, bench proto.Bench, p *load.Piece) error {
	f, release := bench.Write(ctx, func(a proto.Bench_write_Params) error { return a.SetData(p.Bytes) })
	defer release()
	r, err := f.Struct()
	if err != nil {
		return err
	}
	return p.CheckSum(r.Sum())
}

func goChain(ctx context.Context, bench proto.Bench, p *load.Piece, pipelined bool) error {
	for range load.ChainCalls - 1 {
		f, release := bench.Next(ctx, nil)
		defer release()
		if !pipelined {
			if _, err := f.Struct(); err != nil {
				return err
			}
		}
		bench = f.Next()
	}
	return goEcho(ctx, bench, p)
}

func (g *goClient) stream(ctx context.Context, s *load.Streamed) error {
	f, release := g.bench.Sink(ctx, nil)
	defer release()
	r, err := f.Struct()
	if err != nil {
		return err
	}
	sink := r.Sink()
	sink.SetFlowLimiter(flowcontrol.NewFixedLimiter(goWindow))
	for chunk := range s.Chunks() {
		if err := sink.Write(ctx, func(p proto.Sink_write_Params) error { return p.SetData(chunk) }); err != nil {
			return err
		}
	}
	done, releaseDone := sink.Done(ctx, nil)
	defer releaseDone()
	d, err := done.Struct()
	if err != nil {
		return err
	}
	return s.Check(d.Sum())
}
