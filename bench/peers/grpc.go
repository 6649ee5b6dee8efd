//go:build !alone

package peers

import (
	"context"
	"errors"
	"io"
	"net"
	"os"
	"path/filepath"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"

	"capd/bench/grpcproto"
	"capd/bench/load"
)

var grpcOps = []string{load.Echo, load.Read, load.Write, load.Stream, load.Pread}

// GRPC is gRPC-Go. It has no capabilities, and so no chain.
var GRPC = &Contender{
	Name:    "gRPC",
	About:   "google.golang.org/grpc, protocol buffers, windows of 4 MiB",
	Ops:     grpcOps,
	OpsTLS:  grpcOps,
	Version: moduleVersion("google.golang.org/grpc"),
	Serve: func(p Place, l net.Listener) error {
		table, err := load.ReadTable(p.Table)
		if err != nil {
			return err
		}
		f, err := os.Open(filepath.Join(p.Tree, load.TableFile))
		if err != nil {
			return err
		}
		// l speaks TLS by itself, if it is to.
		s := grpc.NewServer(grpc.MaxRecvMsgSize(grpcMessage), grpc.InitialWindowSize(grpcWindow), grpc.InitialConnWindowSize(grpcWindow))
		grpcproto.RegisterBenchServer(s, &grpcServer{table: table, file: f})
		return s.Serve(l)
	},
	Client: func(p Place) (load.Client, error) {
		table, err := load.ReadTable(p.Table)
		if err != nil {
			return nil, err
		}
		c := insecure.NewCredentials()
		target := "unix:" + p.Address
		if p.TLS {
			config, err := p.clientConfig()
			if err != nil {
				return nil, err
			}
			c, target = credentials.NewTLS(config), p.Address
		}
		options := []grpc.DialOption{grpc.WithTransportCredentials(c), grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(grpcMessage)),
			grpc.WithInitialWindowSize(grpcWindow), grpc.WithInitialConnWindowSize(grpcWindow)}
		if !p.TLS {
			options = append(options, grpc.WithContextDialer(func(context.Context, string) (net.Conn, error) { return p.Dial(nil) }))
		}
		conn, err := grpc.NewClient(target, options...)
		if err != nil {
			return nil, err
		}
		return &grpcClient{table, grpcproto.NewBenchClient(conn)}, nil
	},
}

const (
	grpcMessage = 8 << 20
	grpcWindow  = 4 << 20
)

type grpcServer struct {
	grpcproto.UnimplementedBenchServer
	table []byte
	file  *os.File
}

func (s *grpcServer) Echo(_ context.Context, d *grpcproto.Data) (*grpcproto.Data, error) {
	return d, nil
}

func (s *grpcServer) Read(_ context.Context, r *grpcproto.Range) (*grpcproto.Data, error) {
	return &grpcproto.Data{Data: s.table[r.Offset : r.Offset+r.Length]}, nil
}

func (s *grpcServer) Pread(_ context.Context, r *grpcproto.Range) (*grpcproto.Data, error) {
	b := make([]byte, r.Length)
	_, err := s.file.ReadAt(b, int64(r.Offset))
	return &grpcproto.Data{Data: b}, err
}

func (s *grpcServer) Write(_ context.Context, d *grpcproto.Data) (*grpcproto.Sum, error) {
	return &grpcproto.Sum{Sum: load.Sum(d.Data)}, nil
}

func (s *grpcServer) Stream(c grpc.ClientStreamingServer[grpcproto.Data, grpcproto.Sum]) error {
	var sum uint32
	for {
		d, err := c.Recv()
		if errors.Is(err, io.EOF) {
			return c.SendAndClose(&grpcproto.Sum{Sum: sum})
		}
		if err != nil {
			return err
		}
		sum = load.Add(sum, d.Data)
	}
}

type grpcClient struct {
	table []byte
	bench grpcproto.BenchClient
}

func (g *grpcClient) Op(op string, size int) (func(worker int) func() error, error) {
	ctx := context.Background()
	if op == load.Stream {
		s := load.NewStreamed(g.table, size)
		return func(int) func() error { return func() error { return g.stream(ctx, s) } }, nil
	}
	pieces := load.Pieces(g.table, size)
	each, ok := map[string]func(*load.Piece) error{
		load.Echo: func(p *load.Piece) error {
			d, err := g.bench.Echo(ctx, &grpcproto.Data{Data: p.Bytes})
			return errors.Join(err, p.Check(d.GetData()))
		},
		load.Read: func(p *load.Piece) error {
			d, err := g.bench.Read(ctx, &grpcproto.Range{Offset: p.Offset, Length: uint32(size)})
			return errors.Join(err, p.Check(d.GetData()))
		},
		load.Pread: func(p *load.Piece) error {
			d, err := g.bench.Pread(ctx, &grpcproto.Range{Offset: p.Offset, Length: uint32(size)})
			return errors.Join(err, p.Check(d.GetData()))
		},
		load.Write: func(p *load.Piece) error {
			s, err := g.bench.Write(ctx, &grpcproto.Data{Data: p.Bytes})
			return errors.Join(err, p.CheckSum(s.GetSum()))
		},
	}[op]
	if !ok {
		return nil, load.ErrUnsupported
	}
	return func(worker int) func() error { return load.InTurn(pieces, worker, each) }, nil
}

func (g *grpcClient) stream(ctx context.Context, s *load.Streamed) error {
	c, err := g.bench.Stream(ctx)
	if err != nil {
		return err
	}
	for chunk := range s.Chunks() {
		if err := c.Send(&grpcproto.Data{Data: chunk}); err != nil {
			return err
		}
	}
	sum, err := c.CloseAndRecv()
	return errors.Join(err, s.Check(sum.GetSum()))
}
