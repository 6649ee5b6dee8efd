package client_test

import (
	"bytes"
	"net"
	"testing"

	schema "capd/capnp"
	"capd/client"
	"capd/locator"
	"capd/vat"
	"capd/vfs"
)

// careless is a host that streams "abc" and does not keep the promise of "b". It counts
// what is left.
type careless struct {
	first chan struct{} // the sink is to take "a" now
	done  error         // what the sink's done answered
}

var carelessTable = vat.NewTable(
	vat.Handle(schema.Session_restore, func(e *careless, c vat.Call[schema.Session_restore_Params, schema.Session_restore_Results]) error {
		r := c.Results()
		ref, err := r.NewRef()
		if err != nil {
			return err
		}
		return ref.SetFile(c.Caps().Put(vat.Serve(carelessFile, e)))
	}),
)

var carelessFile = vat.NewTable(vat.Handle(schema.File_stream, (*careless).stream))

func (e *careless) stream(c vat.Call[schema.File_stream_Params, schema.File_stream_Results]) error {
	sink := c.Caps().Get(c.Params().Sink())
	write := schema.Sink_write
	write.Stream = false // releasing its answer cancels it
	send := func(data string) *vat.Answer[vat.Empty] {
		return vat.Send(c.Context(), sink, write, func(p schema.Sink_write_Params, _ *vat.Caps) error {
			return p.SetData([]byte(data))
		})
	}
	a := send("a")
	defer a.Release()
	send("b").Release()
	// When this is refused, the cancellation has arrived.
	vat.Do(c.Context(), sink, vat.Method[vat.Empty, vat.Empty]{Interface: 1}, nil, nil)
	close(e.first)
	last := send("c")
	defer last.Release()
	a.Await(c.Context())
	last.Await(c.Context())
	e.done = vat.Do(c.Context(), sink, schema.Sink_done, nil, nil)
	c.Results().SetBytes(2)
	return nil
}

// late is a writer that waits before it takes anything.
type late struct {
	bytes.Buffer
	go_ chan struct{}
}

func (l *late) Write(p []byte) (int, error) {
	<-l.go_
	return l.Buffer.Write(p)
}

// A stream from which the host drops a part is not treated as complete.
func TestStreamLosesAWrite(t *testing.T) {
	a, b := net.Pipe()
	e := &careless{first: make(chan struct{})}
	h := vat.NewConn(a, vat.Options{Bootstrap: vat.Serve(carelessTable, e)})
	defer h.Close()
	c := client.NewConn(b, locator.Locator{Socket: "/nowhere"})
	defer c.Close()
	n, err := c.Node(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer n.Close()
	got := &late{go_: e.first}
	_, err = n.(*client.File).Stream(t.Context(), got, 0, 0)
	if vfs.CodeOf(err) != vfs.Corrupt {
		t.Errorf("%q came, and the error is %v, want corrupt", got, err)
	}
	if e.done == nil {
		t.Error("the sink answers that everything came")
	}
}
