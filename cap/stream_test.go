package cap_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"capd/cap/wire"
	schema "capd/capnp"
	"capd/client"
	"capd/vat"
	"capd/vfs"
	"capd/vfs/vfstest"
)

// pattern returns n bytes, no two parts of which look alike.
func pattern(n int) string {
	b := make([]byte, n)
	x := uint32(1)
	for i := range b {
		x = x*1664525 + 1013904223
		b[i] = 'a' + byte(x>>24)%26
	}
	return string(b)
}

func TestStreamRanges(t *testing.T) {
	const size = 3*wire.Chunk + 1000
	data := pattern(size)
	_, _, d := guest(t, vfstest.Tree{"f": {Data: data}, "empty": {}})
	f := d.OpenFile("f")
	for _, off := range []int64{0, 1, wire.Chunk - 1, wire.Chunk, size - 1, size, size + 1, 1 << 62} {
		for _, n := range []int64{0, 1, wire.Chunk, wire.Chunk + 1, size, 1 << 62} {
			from := min(off, size)
			to := size - from
			if n > 0 {
				to = min(to, n)
			}
			var got strings.Builder
			m, err := f.Stream(t.Context(), &got, off, n)
			ok(t, err)
			if want := data[from : from+to]; got.String() != want || m != int64(len(want)) {
				t.Errorf("%d bytes from %d: %d bytes, want %d", n, off, got.Len(), len(want))
			}
		}
	}
	var got strings.Builder
	n, err := d.OpenFile("empty").Stream(t.Context(), &got, 0, 0)
	if ok(t, err); n != 0 {
		t.Errorf("an empty file streams %d bytes", n)
	}
	_, err = d.OpenFile("missing").Stream(t.Context(), &got, 0, 0)
	is(t, "a missing file", err, vfs.NotFound)
	is(t, "no sink", call(t, f.Cap(), schema.File_stream, nil, nil), vfs.Invalid)
	is(t, "a sink that is a Dir", call(t, f.Cap(), schema.File_stream, func(p schema.File_stream_Params, c *vat.Caps) error {
		return p.SetSink(c.Put(d.Cap().AddRef()))
	}, nil), vfs.Invalid)
	is(t, "an offset past everything", call(t, f.Cap(), schema.File_stream, func(p schema.File_stream_Params, c *vat.Caps) error {
		p.SetOffset(1 << 63)
		return p.SetSink(c.Put(d.Cap().AddRef()))
	}, nil), vfs.Invalid)
}

// stepping is a sink that takes a chunk and then waits for permission to take more.
type stepping struct {
	strings.Builder
	took chan struct{}
	go_  chan error
}

func newStepping() *stepping {
	return &stepping{took: make(chan struct{}, 100), go_: make(chan error, 100)}
}

func (s *stepping) Write(p []byte) (int, error) {
	s.took <- struct{}{}
	if err := <-s.go_; err != nil {
		return 0, err
	}
	return s.Builder.Write(p)
}

func startStream(ctx context.Context, f *client.File, s *stepping) chan error {
	done := make(chan error, 1)
	go func() {
		_, err := f.Stream(ctx, s, 0, 0)
		done <- err
	}()
	<-s.took
	return done
}

func TestStreamIsOneContent(t *testing.T) {
	old := pattern(6 << 20)
	_, _, d := guest(t, vfstest.Tree{"f": {Data: old}})
	s := newStepping()
	done := startStream(t.Context(), d.OpenFile("f"), s)
	_, err := d.Put(t.Context(), "f", strings.NewReader("new"), vfs.If{})
	ok(t, err)
	close(s.go_)
	ok(t, <-done)
	if s.String() != old {
		t.Error("a replacement shows in a stream that had begun")
	}
	reads(t, d, "f", "new")
}

func TestStreamRevoked(t *testing.T) {
	s, _, d := guest(t, vfstest.Tree{"f": {Data: pattern(20 << 20)}})
	lent, r := d.Revocable()
	sink := vat.Serve(stuckTable, &stuck{make(chan struct{})})
	a := vat.Send(t.Context(), lent.OpenFile("f").Cap(), schema.File_stream, func(p schema.File_stream_Params, c *vat.Caps) error {
		return p.SetSink(c.Put(sink.AddRef()))
	})
	defer a.Release()
	const most = wire.Window / wire.Chunk
	eventually(t, "the host waits for the sink", func() bool { st := s.Server.Stats(); return len(st) == 1 && st[0].Questions >= most-1 })
	if n := s.Server.Stats()[0].Questions; n > most {
		t.Errorf("%d chunks are under way to a sink that is stuck, want at most %d", n, most)
	}
	began := time.Now()
	ok(t, r.Revoke(t.Context()))
	_, _, err := a.Await(t.Context())
	is(t, "a stream in the middle", wire.Decode(err), vfs.Revoked)
	if took := time.Since(began); took > 3*time.Second {
		t.Errorf("it took %v to end a stream to a sink that is stuck", took)
	}
}

// stuck is a sink that answers when it is cancelled or told to.
type stuck struct{ end chan struct{} }

var stuckTable = vat.NewTable(vat.Handle(schema.Sink_write, func(s *stuck, c vat.Call[schema.Sink_write_Params, vat.Empty]) error {
	select {
	case <-s.end:
	case <-c.Context().Done():
	}
	return &vat.Exception{Type: vat.Disconnected, Reason: "capd: revoked: by the sink, who cannot"}
}))

// An error of a sink is not treated as an error of the host.
func TestStreamSinkFails(t *testing.T) {
	_, _, d := guest(t, vfstest.Tree{"f": {Data: pattern(20 << 20)}})
	full := errors.New("the disk is full")
	s := newStepping()
	done := startStream(t.Context(), d.OpenFile("f"), s)
	s.go_ <- full
	close(s.go_)
	if err := <-done; err != full {
		t.Errorf("the reader of a stream is told %v, want his own error", err)
	}
	end := make(chan struct{})
	close(end)
	err := call(t, d.OpenFile("f").Cap(), schema.File_stream, func(p schema.File_stream_Params, c *vat.Caps) error {
		return p.SetSink(c.Put(vat.Serve(stuckTable, &stuck{end})))
	}, nil)
	is(t, "a sink that says revoked", err, vfs.Invalid)
	if !strings.Contains(err.Error(), "by the sink, who cannot") {
		t.Errorf("the caller is told %v, and not what the sink says", err)
	}
}

func TestStreamGuestGone(t *testing.T) {
	s, c, d := guest(t, vfstest.Tree{"f": {Data: pattern(20 << 20)}})
	sink := newStepping()
	done := startStream(t.Context(), d.OpenFile("f"), sink)
	c.Close()
	close(sink.go_)
	if err := <-done; err == nil {
		t.Error("a stream over a connection that is gone answers no error")
	}
	eventually(t, "the host has let go", func() bool { return s.Server.Conns() == 0 })
}

func TestStreamCancelled(t *testing.T) {
	s, _, d := guest(t, vfstest.Tree{"f": {Data: pattern(20 << 20)}})
	ctx, cancel := context.WithCancel(t.Context())
	sink := newStepping()
	done := startStream(ctx, d.OpenFile("f"), sink)
	cancel()
	sink.go_ <- nil
	if err := <-done; !errors.Is(err, context.Canceled) {
		t.Errorf("a cancelled stream answers %v", err)
	}
	close(sink.go_)
	eventually(t, "the host has ended it", func() bool { st := s.Server.Stats(); return st[0].Calls == 0 && st[0].Questions == 0 })
}
