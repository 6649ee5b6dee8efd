package vat_test

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

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
	require.NoError(t, s.Drain(t.Context()))
	require.NoError(t, vat.Do(t.Context(), s, tp.Stream_done, nil, func(r tp.Stream_done_Results, _ *vat.Caps) error {
		assert.EqualValues(t, calls, r.Writes())
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
		require.Equal(t, &vat.Exception{Type: vat.Overloaded, Reason: "full: as told"}, err)
	}
	require.EqualError(t, first.Drain(t.Context()), "full: as told")
}

// The reason why a call was not sent can be told from an error of the peer.
func TestNotSent(t *testing.T) {
	p := connect(t, vat.Limits{})
	e := p.echoCap(t)
	defer e.Release()
	mine := errors.New("mine")
	err := vat.Do(t.Context(), e, tp.Echo_echo, func(tp.Echo_echo_Params, *vat.Caps) error { return mine }, nil)
	require.ErrorIs(t, err, mine)

	s := p.stream(t)
	defer s.Release()
	require.NoError(t, s.Settle(t.Context()))
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
	require.ErrorIs(t, err, context.DeadlineExceeded)
	require.ErrorIs(t, s.Drain(t.Context()), context.DeadlineExceeded, "what was not sent is missing")
	require.ErrorIs(t, vat.Do(t.Context(), s, tp.Stream_write, nil, nil), context.DeadlineExceeded, "the next call")
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
					assert.NoError(t, vat.Do(t.Context(), c, tp.Stream_write, nil, nil))
				}
			})
		}
		all.Wait()
		assert.EqualValues(t, 400, calls.Swap(0))
	})
	t.Run("over a connection", func(t *testing.T) {
		a, b := sockets(t)
		_, c := reachOver(t, a, b, vat.Serve(bothTable, &bothObj{cap: vat.Serve(table, new(int)), wait: 300 * time.Microsecond}))
		first := vat.Send(t.Context(), c, bothMethod, nil)
		direct := first.Cap(1)
		defer direct.Release()
		require.NoError(t, direct.Settle(t.Context()))
		first.Release()
		var all sync.WaitGroup
		all.Go(func() { // on the reader
			for range 500 {
				vat.Send(t.Context(), direct, tp.Stream_write, nil).Release()
			}
			assert.NoError(t, direct.Drain(t.Context()))
		})
		all.Go(func() { // by a promise, whose queue the worker empties that resolves it
			for range 100 {
				a := vat.Send(t.Context(), c, bothMethod, nil)
				p := a.Cap(1)
				a.Release()
				for range 3 {
					vat.Send(t.Context(), p, tp.Stream_write, nil).Release()
				}
				assert.NoError(t, p.Drain(t.Context()))
				p.Release()
			}
		})
		all.Wait()
		assert.EqualValues(t, 800, calls.Load())
	})
}

// Calls on a promise of this side wait here. Calls on a promise of the peer do not.
func TestPending(t *testing.T) {
	p := connect(t, vat.Limits{})
	far := vat.Send(t.Context(), p.root(t), tp.Chain_slowNext, nil)
	defer far.Release()
	theirs := far.Cap(tp.Chain_slowNext_Results_chain)
	defer theirs.Release()
	require.False(t, theirs.Pending())

	w := newWorld()
	local := w.chain(0)
	defer local.Release()
	require.False(t, local.Pending())
	ours := late(t, local, 20)
	defer ours.Release()
	require.True(t, ours.Pending())
	require.NoError(t, ours.Settle(t.Context()))
	require.False(t, ours.Pending())
	require.False(t, vat.Broken(errors.New("no")).Pending())
	require.False(t, (*vat.Cap)(nil).Pending())
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
			require.ErrorIs(t, err, context.Canceled)
			return
		}
		sent++
	}
	t.Error("nothing waits")
}
