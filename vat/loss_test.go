package vat_test

import (
	"context"
	"errors"
	"reflect"
	"strings"
	"sync"
	"testing"

	"capd/vat"
	tp "capd/vat/internal/testproto"
)

// A tape is a stream that keeps what was written to it, and the failures that StreamBroken reported.
type tape struct {
	running chan struct{} // a write has begun
	gate    chan struct{} // a write of "wait" ends

	mu      sync.Mutex
	written string
	broken  []string
}

func newTape() *tape { return &tape{running: make(chan struct{}, 1), gate: make(chan struct{}, 1)} }

var tapeTable = vat.NewTable(vat.Handle(tp.Stream_write, (*tape).write))

func (p *tape) write(c vat.Call[tp.Stream_write_Params, vat.Empty]) error {
	b, err := c.Params().Data()
	if err != nil {
		return err
	}
	switch string(b) {
	case "wait":
		p.running <- struct{}{}
		<-p.gate
	case "panic":
		panic("as told")
	case "fail":
		return &vat.Exception{Type: vat.Failed, Reason: "as told"}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.written += string(b)
	return nil
}

func (p *tape) StreamBroken(why *vat.Exception) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.broken = append(p.broken, why.Reason)
}

func (p *tape) told() (written string, broken []string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.written, p.broken
}

// A tapes returns its tape once its test allows it.
type tapes struct {
	tape *vat.Cap
	give chan struct{}
}

var tapesTable = vat.NewTable(vat.Handle(tp.Server_stream, func(o *tapes, c vat.Call[tp.Server_stream_Params, tp.Server_stream_Results]) error {
	select {
	case <-o.give:
	case <-c.Context().Done():
		return c.Context().Err()
	}
	return c.Results().SetStream(c.Caps().Put(o.tape.AddRef()))
}))

// onTape returns a promise of a tape that a server serves. It is resolved when give is called.
func onTape(t *testing.T, limits vat.Limits) (p *tape, c *vat.Cap, give func()) {
	p, giving := newTape(), make(chan struct{})
	a, b := sockets(t)
	server := vat.NewConn(b, vat.Options{Bootstrap: vat.Serve(tapesTable, &tapes{vat.Serve(tapeTable, p), giving}), Limits: limits})
	client := vat.NewConn(a, vat.Options{})
	root := client.Bootstrap(t.Context())
	vat.OK(t, root.Settle(t.Context())) // so that each write leaves at once: one that is cancelled here is told to nobody there
	got := vat.Send(t.Context(), root, tp.Server_stream, nil)
	c = got.Cap(tp.Server_stream_Results_stream)
	t.Cleanup(func() {
		c.Release()
		got.Release()
		root.Release()
		client.Close()
		server.Close()
		<-client.Done()
		<-server.Done()
	})
	return p, c, sync.OnceFunc(func() {
		again := client.Bootstrap(t.Context()) // whose answer comes behind what was sent before
		defer again.Release()
		if err := again.Settle(t.Context()); err != nil {
			t.Errorf("again.Settle(): %v", err)
		}
		close(giving)
	})
}

// droppable is a write by a caller that drops its promise, which cancels the write.
var droppable = func() vat.Method[tp.Stream_write_Params, vat.Empty] {
	m := tp.Stream_write
	m.Stream = false
	return m
}()

func writeTo(t *testing.T, c *vat.Cap, text string) *vat.Answer[vat.Empty] {
	return vat.Send(t.Context(), c, droppable, func(_ tp.Stream_write_Params, caps *vat.Caps) error {
		return caps.SetData(tp.Stream_write_Params_data, []byte(text))
	})
}

// But a lost call of a stream is reported to the stream's server. Its other calls are not.
func TestStreamBroken(t *testing.T) {
	const canceled = "call was canceled"
	for _, row := range []struct {
		name   string
		limits vat.Limits
		// writes uses c, the tape or a promise of it, and calls give when the promise may be resolved.
		writes func(t *testing.T, p *tape, c *vat.Cap, give func())
		want   []string
	}{
		{"nothing is lost", vat.Limits{}, func(t *testing.T, p *tape, c *vat.Cap, give func()) {
			give()
			writeTo(t, c, "a")
		}, nil},
		{"its handler fails", vat.Limits{}, func(t *testing.T, _ *tape, c *vat.Cap, give func()) {
			give()
			writeTo(t, c, "fail")
		}, []string{"as told"}},
		{"its handler panics", vat.Limits{}, func(t *testing.T, _ *tape, c *vat.Cap, give func()) {
			give()
			writeTo(t, c, "panic")
		}, []string{"internal error"}},
		{"cancelled behind another", vat.Limits{}, func(t *testing.T, p *tape, c *vat.Cap, give func()) {
			give()
			writeTo(t, c, "wait")
			<-p.running
			writeTo(t, c, "b").Release()
			if err := vat.Do(t.Context(), c, tp.Stream_done, nil, nil); err == nil {
				t.Fatal("vat.Do(c, tp.Stream_done, nil, nil): no error, want one: the peer has no such method")
			}
			p.gate <- struct{}{}
		}, []string{canceled}},
		{"cancelled before the stream is there", vat.Limits{}, func(t *testing.T, _ *tape, c *vat.Cap, give func()) {
			for range 3 {
				writeTo(t, c, "a").Release()
			}
			give()
		}, []string{canceled}},
		{"cancelled between others before the stream is there", vat.Limits{}, func(t *testing.T, _ *tape, c *vat.Cap, give func()) {
			writeTo(t, c, "a")
			writeTo(t, c, "b").Release()
			writeTo(t, c, "c")
			give()
		}, []string{canceled}},
		{"refused before the stream is there", vat.Limits{Calls: 3}, func(t *testing.T, _ *tape, c *vat.Cap, give func()) {
			writeTo(t, c, "a")
			writeTo(t, c, "b")
			a := writeTo(t, c, "c")
			_, _, err := a.Await(t.Context())
			if err == nil || !strings.Contains(err.Error(), "limit") {
				t.Errorf("a.Await: %v, want it to contain %q", err, "limit")
			}
			give()
		}, []string{"limit: 3 calls are in progress"}},
		{"refused behind another", vat.Limits{Calls: 2}, func(t *testing.T, p *tape, c *vat.Cap, give func()) {
			give()
			vat.OK(t, c.Settle(t.Context()))
			writeTo(t, c, "wait")
			<-p.running
			second := writeTo(t, c, "b")
			_, _, err := writeTo(t, c, "c").Await(t.Context())
			if err == nil || !strings.Contains(err.Error(), "limit") {
				t.Errorf("Await: %v, want it to contain %q", err, "limit")
			}
			p.gate <- struct{}{}
			_, _, err = second.Await(t.Context()) // there is room again
			if err != nil {
				t.Errorf("second.Await: %v", err)
			}
		}, []string{"limit: 2 calls are in progress"}},
	} {
		t.Run(row.name, func(t *testing.T) {
			p, c, give := onTape(t, row.limits)
			row.writes(t, p, c, give)
			give()
			vat.OK(t, c.Settle(t.Context()))
			soon(t, func() bool {
				_, broken := p.told()
				return len(broken) >= len(row.want)
			}, "nobody was told")
			last := writeTo(t, c, ".")
			defer last.Release()
			_, _, err := last.Await(t.Context())
			vat.OK(t, err)
			written, broken := p.told()
			if !reflect.DeepEqual(broken, row.want) {
				t.Errorf("told %q, want %q, with %q written", broken, row.want, written)
			}
		})
	}
}

// The same holds for calls that never leave this process.
func TestStreamBrokenHere(t *testing.T) {
	p := newTape()
	c := vat.Serve(tapeTable, p)
	defer c.Release()
	first := writeTo(t, c, "wait")
	<-p.running
	writeTo(t, c, "b").Release()
	p.gate <- struct{}{}
	_, _, err := first.Await(t.Context())
	vat.OK(t, err)
	_, _, err = writeTo(t, c, "c").Await(t.Context())
	vat.OK(t, err)
	written, broken := p.told()
	if written != "waitc" {
		t.Errorf("written = %q, want %q", written, "waitc")
	}
	if want := []string{"call was canceled"}; !reflect.DeepEqual(broken, want) {
		t.Errorf("broken = %v, want %v", broken, want)
	}
}

// What a promise remembers of lost calls is bounded. A lost call of another method breaks no stream.
func TestLossesAreBounded(t *testing.T) {
	p, c, give := onTape(t, vat.Limits{})
	for id := range uint16(1000) {
		vat.Send(t.Context(), c, vat.Method[vat.Empty, vat.Empty]{Interface: 1, ID: id}, nil).Release()
	}
	give()
	vat.OK(t, c.Settle(t.Context()))
	last := writeTo(t, c, ".")
	defer last.Release()
	_, _, err := last.Await(t.Context())
	vat.OK(t, err)
	_, broken := p.told()
	if len(broken) != 0 {
		t.Errorf("broken = %v, want nothing", broken)
	}
}

// A call that fails before it is sent makes the stream fail on the caller's side.
func TestStreamNotSent(t *testing.T) {
	p := connect(t, vat.Limits{})
	s := p.stream(t)
	defer s.Release()
	mine := errors.New("mine")
	vat.Send(t.Context(), s, tp.Stream_write, func(tp.Stream_write_Params, *vat.Caps) error { return mine }).Release()
	if err := s.Drain(t.Context()); !errors.Is(err, mine) {
		t.Fatalf("s.Drain(): %v, want %v", err, mine)
	}
	other := s.AddRef()
	defer other.Release()
	over, cancel := context.WithCancel(t.Context())
	cancel()
	vat.OK(t, vat.Do(t.Context(), other, tp.Stream_done, nil, nil))
	if err := other.Drain(over); err != nil {
		t.Fatalf("other.Drain(over): %v: another reference is another stream", err)
	}
}
