package vat_test

import (
	"bytes"
	"context"
	"errors"
	"net"
	"slices"
	"sync"
	"testing"
	"time"

	"capnproto.org/go/capnp/v3"
	"capnproto.org/go/capnp/v3/std/capnp/rpc"

	"capd/vat"
	tp "capd/vat/internal/testproto"
)

// led makes one call after another until callers read their own answers.
func led(t *testing.T, p *pair, e *vat.Cap) {
	t.Helper()
	before := p.client.Turns()
	deadline := time.Now().Add(patience)
	for p.client.Turns() < before+10 {
		if time.Now().After(deadline) {
			t.Fatal("no caller reads its own answers")
		}
		_, err := echo(t.Context(), e, "hello")
		vat.OK(t, err)
	}
}

func sleep(ctx context.Context, e *vat.Cap, ms uint32) error {
	return vat.Do(ctx, e, tp.Echo_sleep, func(q tp.Echo_sleep_Params, _ *vat.Caps) error { q.SetMs(ms); return nil }, nil)
}

func TestCallerReads(t *testing.T) {
	p := connect(t, vat.Limits{})
	e := p.echoCap(t)
	defer e.Release()
	led(t, p, e)
	if err := sleep(t.Context(), e, 20); err != nil {
		t.Fatalf("sleep(e, 20): %v: longer than a turn", err)
	}
	led(t, p, e)
	time.Sleep(10 * time.Millisecond)
	if err := sleep(t.Context(), e, 1); err != nil {
		t.Fatalf("sleep(e, 1): %v: after a pause", err)
	}
	led(t, p, e)
	vat.OK(t, vat.Do(t.Context(), e, tp.Echo_data, func(q tp.Echo_data_Params, _ *vat.Caps) error { q.SetSize(5 << 20); return nil }, nil))
}

// A caller that reads notices the end of its context. Others get their answers meanwhile.
func TestCallerReadsNoLongerThanItWaits(t *testing.T) {
	p := connect(t, vat.Limits{})
	e := p.echoCap(t)
	defer e.Release()
	for range 20 {
		led(t, p, e)
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Microsecond)
		err := sleep(ctx, e, 60_000)
		cancel()
		if !errors.Is(err, context.DeadlineExceeded) {
			t.Fatalf("sleep: %v, want %v", err, context.DeadlineExceeded)
		}
		over(t, p)

		led(t, p, e)
		ctx, cancel = context.WithCancel(t.Context())
		var wg sync.WaitGroup
		wg.Go(func() {
			if err := sleep(ctx, e, 60_000); !errors.Is(err, context.Canceled) {
				t.Errorf("sleep(e, 60_000): %v, want %v", err, context.Canceled)
			}
		})
		for range 10 {
			_, err := echo(t.Context(), e, "hello")
			vat.OK(t, err)
		}
		cancel()
		wg.Wait()
		over(t, p)
	}
}

// over waits until no call is in progress at the server: none begun, or all cancelled.
func over(t *testing.T, p *pair) {
	t.Helper()
	soon(t, func() bool { return p.server.Stats().Calls == 0 }, "calls go on at the server")
}

// A caller that reads when the connection ends gets the reason.
func TestCallerReadsTheEnd(t *testing.T) {
	for _, who := range []string{"client", "server"} {
		p := connect(t, vat.Limits{})
		e := p.echoCap(t)
		led(t, p, e)
		ended := p.client
		if who == "server" {
			ended = p.server
		}
		time.AfterFunc(100*time.Microsecond, func() { _ = ended.Close() })
		err := sleep(t.Context(), e, 60_000)
		var exc *vat.Exception
		if !errors.As(err, &exc) {
			t.Fatalf("%s: sleep: %v, want a %T", who, err, exc)
		}
		if exc.Type != vat.Disconnected {
			t.Errorf("%s: exc.Type = %v, want %v", who, exc.Type, vat.Disconnected)
		}
		e.Release()
		<-p.client.Done()
	}
}

// Calls from several goroutines, streams and the caller's own capabilities, in turn with single calls.
func TestCallerReadsInTurnWithOthers(t *testing.T) {
	p := connect(t, vat.Limits{})
	e := p.echoCap(t)
	defer e.Release()
	mine := newWorld()
	for range 30 {
		led(t, p, e)
		var wg sync.WaitGroup
		for range 4 {
			wg.Go(func() {
				for range 20 {
					_, err := echo(t.Context(), e, "hello")
					if err != nil {
						t.Errorf("echo: %v", err)
					}
				}
			})
		}
		wg.Wait()
		led(t, p, e)
		c := mine.serve(&echoObj{tracked{mine}})
		a := vat.Send(t.Context(), e, tp.Echo_cap, func(q tp.Echo_cap_Params, caps *vat.Caps) error { return q.SetCap(caps.Put(c)) })
		back := a.Cap(0)
		a.Release()
		_, err := echo(t.Context(), back, "to itself")
		vat.OK(t, err)
		back.Release()
	}
	soon(t, func() bool { return mine.live.Load() == 0 }, "objects leaked")
}

// A peer that sends a part of a message, or messages without end, does not hold up a caller that reads.
func TestCallerReadsWholeMessages(t *testing.T) {
	m := nothingNew(t)
	for name, send := range map[string]func(nc net.Conn){
		"a byte": func(nc net.Conn) {
			_, _ = nc.Write(m[:1])
			time.Sleep(500 * time.Millisecond)
			_, _ = nc.Write(m[1:])
		},
		"always a part": func(nc net.Conn) {
			_, _ = nc.Write(m[:1])
			for range 10 {
				time.Sleep(50 * time.Millisecond)
				_, _ = nc.Write(slices.Concat(m[1:], m[:1]))
			}
			_, _ = nc.Write(m[1:])
		},
		"a flood": func(nc net.Conn) {
			many := bytes.Repeat(m, 1000)
			for begun := time.Now(); time.Since(begun) < 500*time.Millisecond; {
				_, _ = nc.Write(many)
			}
		},
		"a flood in parts": func(nc net.Conn) {
			many := bytes.Repeat(m, 1000)
			_, _ = nc.Write(m[:9])
			many = slices.Concat(many[9:], m[:9])
			for begun := time.Now(); time.Since(begun) < 500*time.Millisecond; {
				_, _ = nc.Write(many)
			}
			_, _ = nc.Write(m[9:])
		},
	} {
		t.Run(name, func(t *testing.T) {
			a, there := sockets(t)
			here, b := sockets(t)
			p := connectOver(t, a, b, vat.Limits{})
			var sending sync.Mutex
			pass := func(to, from net.Conn, mu *sync.Mutex) {
				defer to.Close()
				buf := make([]byte, 64<<10)
				for {
					n, err := from.Read(buf)
					if err != nil {
						return
					}
					mu.Lock()
					_, _ = to.Write(buf[:n])
					mu.Unlock()
				}
			}
			go pass(here, there, new(sync.Mutex))
			go pass(there, here, &sending) // whole messages: nothing is large
			e := p.echoCap(t)
			defer e.Release()
			for range 2 {
				led(t, p, e)
				ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
				begun := time.Now()
				var wg sync.WaitGroup
				wg.Add(1)
				time.AfterFunc(200*time.Microsecond, func() {
					defer wg.Done()
					sending.Lock()
					defer sending.Unlock()
					send(there)
				})
				err := sleep(ctx, e, 60_000)
				cancel()
				if !errors.Is(err, context.DeadlineExceeded) {
					t.Fatalf("sleep: %v, want %v", err, context.DeadlineExceeded)
				}
				if got := time.Since(begun); got >= patience {
					t.Errorf("the caller was held for %v, want less than %v", got, patience)
				}
				wg.Wait()
			}
			over(t, p)
		})
	}
}

// nothingNew is a frame that changes nothing: the resolution of a promise that nobody holds.
func nothingNew(t *testing.T) []byte {
	t.Helper()
	msg, seg := capnp.NewSingleSegmentMessage(nil)
	root, err := rpc.NewRootMessage(seg)
	vat.OK(t, err)
	r, err := root.NewResolve()
	vat.OK(t, err)
	r.SetPromiseId(123_456)
	e, err := r.NewException()
	vat.OK(t, err)
	vat.OK(t, e.SetReason("nothing"))
	frame, err := msg.Marshal()
	vat.OK(t, err)
	return frame
}
