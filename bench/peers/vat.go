package peers

import (
	"context"
	"net"
	"os"
	"path/filepath"

	"capd/bench/load"
	"capd/bench/proto"
	"capd/meter"
	"capd/vat"
)

var capnpOps = []string{load.Echo, load.Chain, load.ChainSeq, load.Read, load.Write, load.Stream, load.Pread}

// Vat is package vat by itself.
var Vat = &Contender{
	Name:    "vat",
	About:   "capd/vat at both ends",
	Ops:     capnpOps,
	OpsTLS:  capnpOps,
	Ours:    true,
	Version: goVersion,
	Beneath: vat.Gather,
	Serve:   serveVat,
	Client:  newVatClient,
	Idle:    idleVat,
}

type vatServer struct {
	table []byte
	file  *os.File
}

type vatSink struct{ sum uint32 }

func serveVat(p Place, l net.Listener) error {
	table, err := load.ReadTable(p.Table)
	if err != nil {
		return err
	}
	f, err := os.Open(filepath.Join(p.Tree, load.TableFile))
	if err != nil {
		return err
	}
	s := &vatServer{table, f}
	guests := meter.NewHost(nil).Grant("bench", nil) // as capd's host gives the guests of a grant
	return accept(l, func(conn net.Conn) {
		vat.NewConn(conn, vat.Options{Bootstrap: vat.Serve(vatTable, s), Meter: guests})
	})
}

var vatTable, vatSinkTable *vat.Table

func init() { // next answers another capability of the same table
	vatTable = vat.NewTable(
		vat.Handle(proto.Bench_echo, (*vatServer).echo, vat.Inline()),
		vat.Handle(proto.Bench_read, (*vatServer).read, vat.Inline()),
		vat.Handle(proto.Bench_write, (*vatServer).write, vat.Inline()),
		vat.Handle(proto.Bench_next, (*vatServer).next, vat.Inline()),
		vat.Handle(proto.Bench_sink, (*vatServer).sink, vat.Inline()),
		vat.Handle(proto.Bench_pread, (*vatServer).pread, vat.Inline()), // as the floor does it
	)
	vatSinkTable = vat.NewTable(
		vat.Handle(proto.Sink_write, (*vatSink).write, vat.Inline()),
		vat.Handle(proto.Sink_done, (*vatSink).done, vat.Inline()),
	)
}

func (s *vatServer) echo(c vat.Call[proto.Bench_echo_Params, proto.Bench_echo_Results]) error {
	b, err := c.Params().Data()
	if err != nil {
		return err
	}
	return c.Results().SetData(b)
}

func (s *vatServer) read(c vat.Call[proto.Bench_read_Params, proto.Bench_read_Results]) error {
	off, length := int(c.Params().Offset()), int(c.Params().Length())
	b, err := c.Data(proto.Bench_read_Results_data, length)
	if err != nil {
		return err
	}
	copy(b, s.table[off:])
	return nil
}

func (s *vatServer) pread(c vat.Call[proto.Bench_pread_Params, proto.Bench_pread_Results]) error {
	off, length := int64(c.Params().Offset()), int(c.Params().Length())
	b, err := c.Data(proto.Bench_pread_Results_data, length)
	if err != nil {
		return err
	}
	_, err = s.file.ReadAt(b, off)
	return err
}

func (s *vatServer) write(c vat.Call[proto.Bench_write_Params, proto.Bench_write_Results]) error {
	b, err := c.Params().Data()
	if err != nil {
		return err
	}
	c.Results().SetSum(load.Sum(b))
	return nil
}

func (s *vatServer) next(c vat.Call[proto.Bench_next_Params, proto.Bench_next_Results]) error {
	return c.Results().SetNext(c.Caps().Put(vat.Serve(vatTable, &vatServer{s.table, s.file})))
}

func (s *vatServer) sink(c vat.Call[proto.Bench_sink_Params, proto.Bench_sink_Results]) error {
	return c.Results().SetSink(c.Caps().Put(vat.Serve(vatSinkTable, &vatSink{})))
}

func (s *vatSink) write(c vat.Call[proto.Sink_write_Params, vat.Empty]) error {
	b, err := c.Params().Data()
	if err != nil {
		return err
	}
	s.sum = load.Add(s.sum, b)
	return nil
}

func (s *vatSink) done(c vat.Call[proto.Sink_done_Params, proto.Sink_done_Results]) error {
	c.Results().SetSum(s.sum)
	return nil
}

type vatClient struct {
	table []byte
	bench *vat.Cap
}

func newVatClient(p Place) (load.Client, error) {
	conn, err := p.Dial(vat.Gather)
	if err != nil {
		return nil, err
	}
	table, err := load.ReadTable(p.Table)
	return &vatClient{table, vat.NewConn(conn, vat.Options{}).Bootstrap(context.Background())}, err
}

// idleVat makes a call, reads 256 KiB, and leaves the connection open.
func idleVat(p Place) error {
	conn, err := p.Dial(vat.Gather)
	if err != nil {
		return err
	}
	bench := vat.NewConn(conn, vat.Options{}).Bootstrap(context.Background())
	return vat.Do(context.Background(), bench, proto.Bench_read,
		func(p proto.Bench_read_Params, _ *vat.Caps) error { p.SetLength(256 << 10); return nil }, nil)
}

func (v *vatClient) Op(op string, size int) (func(worker int) func() error, error) {
	ctx := context.Background()
	switch op {
	case load.Chain, load.ChainSeq:
		pieces := load.Pieces(v.table, size)
		return func(worker int) func() error {
			return load.InTurn(pieces, worker, func(p *load.Piece) error { return v.chain(ctx, op == load.Chain, p) })
		}, nil
	case load.Stream:
		s := load.NewStreamed(v.table, size)
		return func(int) func() error { return func() error { return v.stream(ctx, s) } }, nil
	}
	each, ok := map[string]func(context.Context, *vat.Cap, *load.Piece) error{
		load.Echo: vatEcho, load.Read: vatReadPiece, load.Pread: vatPread, load.Write: vatWrite,
	}[op]
	if !ok {
		return nil, load.ErrUnsupported
	}
	pieces := load.Pieces(v.table, size)
	return func(worker int) func() error {
		return load.InTurn(pieces, worker, func(p *load.Piece) error { return each(ctx, v.bench, p) })
	}, nil
}

func vatEcho(ctx context.Context, bench *vat.Cap, p *load.Piece) error {
	return vat.Do(ctx, bench, proto.Bench_echo,
		func(a proto.Bench_echo_Params, _ *vat.Caps) error { return a.SetData(p.Bytes) },
		func(r proto.Bench_echo_Results, _ *vat.Caps) error {
			b, err := r.Data()
			if err != nil {
				return err
			}
			return p.Check(b)
		})
}

func vatReadPiece(ctx context.Context, bench *vat.Cap, p *load.Piece) error {
	return vat.Do(ctx, bench, proto.Bench_read,
		func(a proto.Bench_read_Params, _ *vat.Caps) error {
			a.SetOffset(p.Offset)
			a.SetLength(uint32(len(p.Bytes)))
			return nil
		},
		func(r proto.Bench_read_Results, _ *vat.Caps) error {
			b, err := r.Data()
			if err != nil {
				return err
			}
			return p.Check(b)
		})
}

func vatPread(ctx context.Context, bench *vat.Cap, p *load.Piece) error {
	return vat.Do(ctx, bench, proto.Bench_pread,
		func(a proto.Bench_pread_Params, _ *vat.Caps) error {
			a.SetOffset(p.Offset)
			a.SetLength(uint32(len(p.Bytes)))
			return nil
		},
		func(r proto.Bench_pread_Results, _ *vat.Caps) error {
			b, err := r.Data()
			if err != nil {
				return err
			}
			return p.Check(b)
		})
}

func vatWrite(ctx context.Context, bench *vat.Cap, p *load.Piece) error {
	return vat.Do(ctx, bench, proto.Bench_write,
		func(_ proto.Bench_write_Params, c *vat.Caps) error {
			return c.Lend(proto.Bench_write_Params_data, p.Bytes)
		},
		func(r proto.Bench_write_Results, _ *vat.Caps) error { return p.CheckSum(r.Sum()) })
}

// chain makes four calls, each on the capability that the call before answers, and then a small call on the
// last.
func (v *vatClient) chain(ctx context.Context, pipelined bool, p *load.Piece) error {
	c := v.bench.AddRef()
	defer func() { c.Release() }()
	for range load.ChainCalls - 1 {
		a := vat.Send(ctx, c, proto.Bench_next, nil)
		c.Release()
		c = a.Cap(proto.Bench_next_Results_next)
		if !pipelined {
			if _, _, err := a.Await(ctx); err != nil {
				a.Release()
				return err
			}
		}
		a.Release()
	}
	return vatEcho(ctx, c, p)
}

func (v *vatClient) stream(ctx context.Context, s *load.Streamed) error {
	a := vat.Send(ctx, v.bench, proto.Bench_sink, nil)
	sink := a.Cap(proto.Bench_sink_Results_sink)
	a.Release()
	defer sink.Release()
	for chunk := range s.Chunks() {
		w := vat.Send(ctx, sink, proto.Sink_write, func(_ proto.Sink_write_Params, c *vat.Caps) error {
			return c.Lend(proto.Sink_write_Params_data, chunk)
		})
		w.Release()
	}
	return vat.Do(ctx, sink, proto.Sink_done, nil,
		func(r proto.Sink_done_Results, _ *vat.Caps) error { return s.Check(r.Sum()) })
}
