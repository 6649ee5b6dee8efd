package file

import (
	"context"
	"net"
	"strings"
	"testing"
	"time"

	"capd/cap/wire"
	schema "capd/capnp"
	"capd/meter"
	"capd/vat"
	"capd/vfs"
)

type stuck struct{}

var stuckTable = vat.NewTable(vat.Handle(schema.Sink_write, func(_ stuck, c vat.Call[schema.Sink_write_Params, vat.Empty]) error {
	<-c.Context().Done()
	return nil
}))

// A sink that takes nothing ends the stream, whether or not its host still reads.
func TestStreamStalls(t *testing.T) {
	defer func(d time.Duration) { stalled = d }(stalled)
	stalled = 100 * time.Millisecond
	a, b := net.Pipe()
	h := vat.NewConn(a, vat.Options{Bootstrap: New(endless{}, "f"), Encode: wire.Encode})
	g := vat.NewConn(b, vat.Options{})
	defer h.Close()
	defer g.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 60*time.Second)
	defer cancel()
	f := g.Bootstrap(ctx)
	defer f.Release()
	err := wire.Decode(vat.Do(ctx, f, schema.File_stream, func(p schema.File_stream_Params, c *vat.Caps) error {
		return p.SetSink(c.Put(vat.Serve(stuckTable, stuck{})))
	}, nil))
	if vfs.CodeOf(err) != vfs.Busy || !strings.HasPrefix(err.Error(), "busy") {
		t.Errorf("a stream to a sink that is stuck: %v, want busy", err)
	}
	for end := time.Now().Add(30 * time.Second); h.Stats().Questions > 0; time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("writes to the sink stay open: %+v", h.Stats())
		}
	}
}

// A guest with the greatest number of waiting calls is told that there is a limit, and not that its sink failed.
func TestStreamWhereTooManyWait(t *testing.T) {
	m := meter.NewHost(nil).Grant("g", meter.Limits{meter.Waits: 1})
	if err := m.Take(meter.Waits, 1); err != nil {
		t.Fatal(err)
	}
	a, b := net.Pipe()
	h := vat.NewConn(a, vat.Options{Bootstrap: New(endless{}, "f"), Encode: wire.Encode, Meter: m})
	g := vat.NewConn(b, vat.Options{})
	defer h.Close()
	defer g.Close()
	f := g.Bootstrap(t.Context())
	defer f.Release()
	err := wire.Decode(vat.Do(t.Context(), f, schema.File_stream, func(p schema.File_stream_Params, c *vat.Caps) error {
		return p.SetSink(c.Put(vat.Serve(stuckTable, stuck{})))
	}, nil))
	if want := "limit: f: this grant holds all of its 1 calls that wait for a guest (limit waits); let some end, or ask its giver for more"; err == nil || err.Error() != want {
		t.Errorf("%v, want %s", err, want)
	}
}

// endless is a file without an end.
type endless struct{ vfs.File }

func (endless) Open(context.Context) (vfs.Content, error) { return source{}, nil }
func (endless) Close() error                              { return nil }

type source struct{}

func (source) ReadAt(p []byte, _ int64) (int, error) { return len(p), nil }
func (source) Size() int64                           { return 1 << 40 }
func (source) Close() error                          { return nil }
