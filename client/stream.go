package client

import (
	"bytes"
	"context"
	"io"
	"math"
	"os"
	"sync"

	"capnproto.org/go/capnp/v3"

	"capd/cap/wire"
	schema "capd/capnp"
	"capd/vat"
	"capd/vfs"
)

// Stream writes length bytes from off to w, and returns how many it wrote. Length 0 is
// everything from off. All of them are of one content, even if the file changes
// meanwhile.
func (f *File) Stream(ctx context.Context, w io.Writer, off, length int64) (n int64, err error) {
	if err := f.open(); err != nil {
		return 0, err
	}
	if off < 0 || length < 0 {
		return 0, vfs.Errorf(vfs.Invalid, "an offset or a length is negative")
	}
	left := length
	if length == 0 {
		left = math.MaxInt64
	}
	return receive(ctx, w, left, func(to func(*vat.Caps) capnp.Interface) (n uint64, err error) {
		err = wire.Do(ctx, f.cap, schema.File_stream, func(p schema.File_stream_Params, caps *vat.Caps) error {
			p.SetOffset(uint64(off))
			p.SetLength(uint64(length))
			return p.SetSink(to(caps))
		}, func(r schema.File_stream_Results, _ *vat.Caps) error {
			n = r.Bytes()
			return nil
		})
		return n, err
	})
}

// receive writes to w what the host sends to a sink, at most `left` bytes, during a call. The call passes the sink that it gets from
// to, and returns how many bytes the host says that it has sent.
func receive(ctx context.Context, w io.Writer, left int64, call func(to func(*vat.Caps) capnp.Interface) (uint64, error)) (int64, error) {
	s := &sink{ctx: ctx, w: w, left: left}
	n, err := call(func(caps *vat.Caps) capnp.Interface { return caps.Put(vat.Serve(sinkTable, s)) })
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ended = true
	if s.err != nil {
		return s.n, s.err
	}
	if s.left < 0 {
		return s.n, vfs.Errorf(vfs.Corrupt, "the host streamed more than the %d bytes that it was asked for", left)
	}
	if err == nil && s.broken {
		err = vfs.Errorf(vfs.Corrupt, "the host dropped a part of what it streamed")
	}
	if err == nil && (uint64(s.n) != n || !s.done) {
		err = vfs.Errorf(vfs.Corrupt, "the host streamed %d bytes and said %d", s.n, n)
	}
	return s.n, err
}

// sink receives a stream. It writes nothing to w once the call or ctx has ended.
type sink struct {
	ctx   context.Context
	mu    sync.Mutex
	w     io.Writer
	n     int64
	left  int64 // at most to come; negative if more came
	err   error
	done  bool
	ended bool

	broken bool // a write failed or was cancelled
}

var sinkTable = vat.NewTable(
	vat.Handle(schema.Sink_write, (*sink).write),
	vat.Handle(schema.Sink_done, (*sink).finish),
)

func (s *sink) write(c vat.Call[schema.Sink_write_Params, vat.Empty]) error {
	b, err := wire.Param(c.Params().Data())
	if err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.err == nil {
		s.err = s.ctx.Err() // the host may say first that the sink failed
	}
	if s.ended || s.done || s.broken || s.ctx.Err() != nil {
		return vfs.Errorf(vfs.Invalid, "the stream has ended")
	}
	if s.left -= int64(len(b)); s.left < 0 {
		s.ended = true
		return vfs.Errorf(vfs.Invalid, "this is more than was asked for")
	}
	if s.err == nil {
		var n int
		n, s.err = s.w.Write(b)
		s.n += int64(n)
	}
	if s.err != nil {
		return vfs.Errorf(vfs.Invalid, "the receiver failed")
	}
	return nil
}

// StreamBroken ends the stream: a part of it is missing.
func (s *sink) StreamBroken(*vat.Exception) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.done {
		s.broken = true
	}
}

func (s *sink) finish(vat.Call[schema.Sink_done_Params, schema.Sink_done_Results]) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.broken {
		return vfs.Errorf(vfs.Invalid, "a write was cancelled or failed, so what came is not whole")
	}
	s.done = true
	return nil
}

// Open implements vfs.Opener. It reads a content of at most 4 MiB into memory and a
// larger one into a temporary file, so that later changes do not affect it.
func (f *File) Open(ctx context.Context) (vfs.Content, error) {
	b, _, err := f.ReadBytes(ctx)
	if err == nil {
		return memory{bytes.NewReader(b)}, nil
	}
	if vfs.CodeOf(err) != vfs.TooLarge {
		return nil, err
	}
	t, err := os.CreateTemp("", "capd-content-")
	if err != nil {
		return nil, err
	}
	os.Remove(t.Name()) // best effort: the file goes when it is closed
	n, err := f.Stream(ctx, t, 0, 0)
	if err != nil {
		t.Close()
		return nil, err
	}
	return spooled{t, n}, nil
}

type memory struct{ *bytes.Reader }

func (memory) Close() error { return nil }

type spooled struct {
	*os.File
	size int64
}

func (s spooled) Size() int64 { return s.size }
