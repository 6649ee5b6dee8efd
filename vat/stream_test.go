package vat_test

import (
	"context"
	"errors"
	"reflect"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"capd/vat"
	tp "capd/vat/internal/testproto"
)

func (p *pair) stream(t testing.TB) *vat.Cap {
	t.Helper()
	a := vat.Send(t.Context(), p.boot, tp.Server_stream, nil)
	defer a.Release()
	return a.Cap(tp.Server_stream_Results_stream)
}

// Many small calls of a stream stay within the number of calls that the peer allows in
// progress.
func TestStreamOfSmallCalls(t *testing.T) {
	p := connect(t, vat.Limits{})
	s := p.stream(t)
	defer s.Release()
	const calls = 20_000
	for range calls {
		vat.Send(t.Context(), s, tp.Stream_write, func(_ tp.Stream_write_Params, c *vat.Caps) error {
			return c.SetData(tp.Stream_write_Params_data, []byte("0123456789"))
		}).Release()
	}
	vat.OK(t, s.Drain(t.Context()))
	vat.OK(t, vat.Do(t.Context(), s, tp.Stream_done, nil, func(r tp.Stream_done_Results, _ *vat.Caps) error {
		if got := r.Writes(); got != calls {
			t.Errorf("r.Writes() = %d, want %d", got, calls)
		}
		return nil
	}))
}

// Every later call of a stream fails with the first failure, unchanged.
func TestStreamFails(t *testing.T) {
	first := vat.Broken(&vat.Exception{Type: vat.Overloaded, Reason: "full: as told"})
	defer first.Release()
	write := func() error {
		return vat.Do(t.Context(), first, tp.Stream_write, nil, nil)
	}
	for range 3 {
		err := write()
		if want := (&vat.Exception{Type: vat.Overloaded, Reason: "full: as told"}); !reflect.DeepEqual(err, want) {
			t.Fatalf("write = %v, want %v", err, want)
		}
	}
	if err := first.Drain(t.Context()); err == nil || err.Error() != "full: as told" {
		t.Fatalf("first.Drain(): %v, want %q", err, "full: as told")
	}
}

// The reason why a call was not sent can be told from an error of the peer.
func TestNotSent(t *testing.T) {
	p := connect(t, vat.Limits{})
	e := p.echoCap(t)
	defer e.Release()
	mine := errors.New("mine")
	err := vat.Do(t.Context(), e, tp.Echo_echo, func(tp.Echo_echo_Params, *vat.Caps) error { return mine }, nil)
	if !errors.Is(err, mine) {
		t.Fatalf("vat.Do: %v, want %v", err, mine)
	}

	s := p.stream(t)
	defer s.Release()
	vat.OK(t, s.Settle(t.Context()))
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	for err = nil; err == nil; { // the first chunks go, and then the window is full
		a := vat.Send(ctx, s, tp.Stream_write, func(_ tp.Stream_write_Params, c *vat.Caps) error {
			return c.SetData(tp.Stream_write_Params_data, make([]byte, 1<<20))
		})
		over, stop := context.WithCancel(context.Background())
		stop()
		if _, _, failed := a.Await(over); !errors.Is(failed, context.Canceled) {
			err = failed
		}
		a.Release()
	}
	if !errors.Is(err, context.DeadlineExceeded) {
		t.Fatalf("the call that was not sent: %v, want %v", err, context.DeadlineExceeded)
	}
	if err := s.Drain(t.Context()); !errors.Is(err, context.DeadlineExceeded) {
		t.Fatalf("s.Drain(): %v, want %v: what was not sent is missing", err, context.DeadlineExceeded)
	}
	if err := vat.Do(t.Context(), s, tp.Stream_write, nil, nil); !errors.Is(err, context.DeadlineExceeded) {
		t.Fatalf("vat.Do(s, tp.Stream_write, nil, nil): %v, want %v: the next call", err, context.DeadlineExceeded)
	}
}

// The calls of a stream run one after another, also if their handler runs on the reader.
func TestInlineStream(t *testing.T) {
	var inside, calls atomic.Int64
	table := vat.NewTable(vat.Handle(tp.Stream_write, func(_ *int, c vat.Call[tp.Stream_write_Params, vat.Empty]) error {
		if inside.Add(1) != 1 {
			return &vat.Exception{Reason: "two writes at once"}
		}
		defer inside.Add(-1)
		calls.Add(1)
		time.Sleep(10 * time.Microsecond)
		return nil
	}, vat.Inline()))
	t.Run("here", func(t *testing.T) {
		c := vat.Serve(table, new(int))
		defer c.Release()
		var all sync.WaitGroup
		for range 4 {
			all.Go(func() {
				for range 100 {
					if err := vat.Do(t.Context(), c, tp.Stream_write, nil, nil); err != nil {
						t.Errorf("vat.Do(c, tp.Stream_write, nil, nil): %v", err)
					}
				}
			})
		}
		all.Wait()
		if got := calls.Swap(0); got != 400 {
			t.Errorf("calls.Swap(0) = %d, want 400", got)
		}
	})
	t.Run("over a connection", func(t *testing.T) {
		a, b := sockets(t)
		_, c := reachOver(t, a, b, vat.Serve(bothTable, &bothObj{cap: vat.Serve(table, new(int)), wait: 300 * time.Microsecond}))
		first := vat.Send(t.Context(), c, bothMethod, nil)
		direct := first.Cap(1)
		defer direct.Release()
		vat.OK(t, direct.Settle(t.Context()))
		first.Release()
		var all sync.WaitGroup
		all.Go(func() { // on the reader
			for range 500 {
				vat.Send(t.Context(), direct, tp.Stream_write, nil).Release()
			}
			if err := direct.Drain(t.Context()); err != nil {
				t.Errorf("direct.Drain(): %v", err)
			}
		})
		all.Go(func() { // by a promise, whose queue the worker empties that resolves it
			for range 100 {
				a := vat.Send(t.Context(), c, bothMethod, nil)
				p := a.Cap(1)
				a.Release()
				for range 3 {
					vat.Send(t.Context(), p, tp.Stream_write, nil).Release()
				}
				if err := p.Drain(t.Context()); err != nil {
					t.Errorf("p.Drain(): %v", err)
				}
				p.Release()
			}
		})
		all.Wait()
		if got := calls.Load(); got != 800 {
			t.Errorf("calls.Load() = %d, want 800", got)
		}
	})
}

// Calls on a promise of this side wait here. Calls on a promise of the peer do not.
func TestPending(t *testing.T) {
	p := connect(t, vat.Limits{})
	far := vat.Send(t.Context(), p.root(t), tp.Chain_slowNext, nil)
	defer far.Release()
	theirs := far.Cap(tp.Chain_slowNext_Results_chain)
	defer theirs.Release()
	if theirs.Pending() {
		t.Fatal("theirs.Pending() = true, want false")
	}

	w := newWorld()
	local := w.chain(0)
	defer local.Release()
	if local.Pending() {
		t.Fatal("local.Pending() = true, want false")
	}
	ours := late(t, local, 20)
	defer ours.Release()
	if !ours.Pending() {
		t.Fatal("ours.Pending() = false, want true")
	}
	vat.OK(t, ours.Settle(t.Context()))
	if ours.Pending() {
		t.Fatal("ours.Pending() = true, want false")
	}
	if vat.Broken(errors.New("no")).Pending() {
		t.Fatal(`vat.Broken(errors.New("no")).Pending() = true, want false`)
	}
	if (*vat.Cap)(nil).Pending() {
		t.Fatal("(*vat.Cap)(nil).Pending() = true, want false")
	}
}

// A stream to an unresolved promise holds little more than a call or two here.
func TestStreamThatWaitsHere(t *testing.T) {
	w := newWorld()
	local := w.chain(0)
	defer local.Release()
	sink := late(t, local, 300)
	defer sink.Release()
	defer func() { _ = sink.Drain(t.Context()) }()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	sent := 0
	for range 100 {
		if sent == 2 {
			cancel() // the next one waits, and is told
		}
		a := vat.Send(ctx, sink, tp.Stream_write, func(_ tp.Stream_write_Params, c *vat.Caps) error {
			return c.SetData(tp.Stream_write_Params_data, make([]byte, 30<<10))
		})
		defer a.Release()
		if ctx.Err() != nil {
			_, _, err := a.Await(t.Context())
			if !errors.Is(err, context.Canceled) {
				t.Fatalf("a.Await: %v, want %v", err, context.Canceled)
			}
			return
		}
		sent++
	}
	t.Error("nothing waits")
}
