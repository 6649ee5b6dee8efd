package vat_test

import (
	"context"
	"errors"
	"io"
	"sync/atomic"
	"testing"
	"time"

	"capnproto.org/go/capnp/v3/std/capnp/rpc"

	"capd/vat"
	tp "capd/vat/internal/testproto"
)

func TestReleaseIsCalledOnce(t *testing.T) {
	p := connect(t, vat.Limits{})
	c := p.root(t)
	_, err := depthOf(t.Context(), c)
	vat.OK(t, err)
	// The same capability, many references, both ways.
	var refs []*vat.Cap
	e := p.echoCap(t)
	for range 50 {
		a := vat.Send(t.Context(), e, tp.Echo_cap, func(q tp.Echo_cap_Params, caps *vat.Caps) error { return q.SetCap(caps.Put(c.AddRef())) })
		refs = append(refs, a.Cap(0))
		if len(refs)%2 == 0 {
			_, _, err := a.Await(t.Context())
			vat.OK(t, err)
		}
		a.Release()
	}
	e.Release()
	_, err = depthOf(t.Context(), refs[7])
	vat.OK(t, err)
	soon(t, func() bool { return p.live.Load() == 1 }, "the echo stays")
	c.Release()
	for _, r := range refs {
		if got := p.live.Load(); got != 1 {
			t.Fatalf("p.live.Load() = %d, want 1", got)
		}
		r.Release()
	}
	soon(t, func() bool { return p.live.Load() == 0 }, "the chain stays")
	if got := p.released.Load(); got != 2 {
		t.Errorf("p.released.Load() = %d, want 2", got)
	}
	soon(t, func() bool {
		s, c := p.server.Stats(), p.client.Stats()
		return s.Exports == 1 && s.Answers == 0 && c.Imports == 1 && c.Questions == 0
	}, "tables leaked")
}

func TestPeerDiesWhileAHandlerWaitsForIt(t *testing.T) {
	p := connect(t, vat.Limits{})
	stuck := make(chan struct{})
	entered := make(chan struct{})
	obj := &callbackObj{func(n uint32) uint32 { close(entered); <-stuck; return n }, make(chan struct{})}
	cb := vat.Serve(callbackTable, obj)
	a := vat.Send(t.Context(), p.boot, tp.Server_invoke, func(q tp.Server_invoke_Params, caps *vat.Caps) error {
		return q.SetCallback(caps.Put(cb))
	})
	c := p.root(t)
	_, err := depthOf(t.Context(), c)
	vat.OK(t, err)
	s := vat.Send(t.Context(), c, tp.Chain_slowNext, func(q tp.Chain_slowNext_Params, _ *vat.Caps) error { q.SetMs(60_000); return nil })
	<-entered
	time.Sleep(5 * time.Millisecond)
	start := time.Now()
	p.client.Close()
	_, _, err = a.Await(t.Context())
	var exc *vat.Exception
	if !errors.As(err, &exc) {
		t.Fatalf("a.Await: %v, want a %T", err, exc)
	}
	if exc.Type != vat.Disconnected {
		t.Errorf("exc.Type = %v, want %v", exc.Type, vat.Disconnected)
	}
	<-p.server.Done()
	if got := p.server.Err(); got != io.EOF {
		t.Errorf("p.server.Err() = %v, want %v", got, io.EOF)
	}
	<-p.cancelled
	soon(t, func() bool { return p.live.Load() == 0 }, "objects leaked")
	if got := time.Since(start); got >= patience {
		t.Errorf("that took %v, want less than %v", got, patience)
	}
	close(stuck)
	<-obj.released
	a.Release()
	s.Release()
	c.Release()
	_, err = depthOf(t.Context(), c)
	if err == nil {
		t.Error("depthOf: no error")
	}
}

func TestOneConnectionsWorkersAreItsOwn(t *testing.T) {
	a, b := sockets(t)
	w := newWorld()
	busy := vat.NewConn(b, vat.Options{Bootstrap: vat.Serve(w.table, w), Limits: vat.Limits{Workers: 2}})
	client := vat.NewConn(a, vat.Options{})
	defer func() { client.Close(); busy.Close() }()
	boot := client.Bootstrap(t.Context())
	defer boot.Release()
	e := vat.Send(t.Context(), boot, tp.Server_echo, nil)
	ec := e.Cap(0)
	e.Release()
	defer ec.Release()
	for range 10 {
		s := vat.Send(t.Context(), ec, tp.Echo_sleep, func(q tp.Echo_sleep_Params, _ *vat.Caps) error { q.SetMs(60_000); return nil })
		defer s.Release()
	}
	// The reader continues: another object's inline method answers.
	other := vat.Send(t.Context(), boot, tp.Server_echo, nil)
	oc := other.Cap(0)
	other.Release()
	defer oc.Release()
	_, err := echo(t.Context(), oc, "hello")
	vat.OK(t, err)

	p := connect(t, vat.Limits{})
	c := p.root(t)
	defer c.Release()
	_, err = depthOf(t.Context(), c)
	if err != nil {
		t.Errorf("depthOf: %v", err)
	}
}

func TestManyClientsComeAndGo(t *testing.T) {
	var served atomic.Int64
	for range 30 {
		p := connect(t, vat.Limits{})
		c := p.root(t)
		for range 20 {
			s := vat.Send(t.Context(), c, tp.Chain_slowNext, func(q tp.Chain_slowNext_Params, _ *vat.Caps) error { q.SetMs(60_000); return nil })
			d := s.Cap(0)
			s.Release()
			defer d.Release()
			served.Add(1)
		}
		defer c.Release()
		p.client.Close()
	}
	if got := served.Load(); got != 600 {
		t.Errorf("served.Load() = %d, want 600", got)
	}
}

// Two connections hold the same object. The workers of one are stuck in it; the other connection is not affected.
func TestSharedObjectIsNotHeldUp(t *testing.T) {
	w := newWorld()
	shared := w.serve(&echoObj{tracked{w}})
	var boots []*vat.Cap
	for range 2 {
		a, b := sockets(t)
		server := vat.NewConn(b, vat.Options{Bootstrap: shared.AddRef(), Limits: vat.Limits{Workers: 1}})
		client := vat.NewConn(a, vat.Options{})
		defer func() { client.Close(); <-server.Done() }()
		boots = append(boots, client.Bootstrap(t.Context()))
	}
	shared.Release()
	sleep := func(c *vat.Cap, ms uint32) *vat.Answer[tp.Echo_sleep_Results] {
		return vat.Send(t.Context(), c, tp.Echo_sleep, func(q tp.Echo_sleep_Params, _ *vat.Caps) error { q.SetMs(ms); return nil })
	}
	for range 5 {
		defer sleep(boots[0], 60_000).Release()
	}
	time.Sleep(10 * time.Millisecond)
	for range 3 {
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		s := sleep(boots[1], 1)
		_, _, err := s.Await(ctx)
		if err != nil {
			t.Errorf("s.Await: %v", err)
		}
		s.Release()
		_, err = echo(ctx, boots[1], "hello")
		if err != nil {
			t.Errorf("echo: %v", err)
		}
		cancel()
	}
	for _, b := range boots {
		b.Release()
	}
}

// A chain of promises, each resolved to the next, comes to an end.
func TestEndlessPromises(t *testing.T) {
	r := newRaw(t, vat.Limits{})
	boot := r.boot()
	r.hold(1, boot, func(d rpc.CapDescriptor) error { d.SetSenderPromise(5); return nil })
	go func() {
		for {
			if _, err := r.dec.Decode(); err != nil {
				return
			}
		}
	}()
	for i := range uint32(5000) {
		r.resolve(5+i, func(d rpc.CapDescriptor) error { d.SetSenderPromise(6 + i); return nil })
	}
	soon(t, func() bool { return r.conn.Stats().Imports <= 1 }, "promises pile up")
	if err := r.conn.Err(); err != nil {
		t.Errorf("r.conn.Err(): %v", err)
	}
}
