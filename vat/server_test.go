package vat_test

import (
	"context"
	"net"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"capnproto.org/go/capnp/v3"

	"capd/vat"
	tp "capd/vat/internal/testproto"
)

// The server of the tests has one object of each interface in testproto.

type world struct {
	live     atomic.Int64 // objects served and not released
	released atomic.Int64 // calls of Release
	held     struct {
		sync.Mutex
		cap *vat.Cap
	}
	cancelled chan struct{} // a sleep was cancelled
	asleep    atomic.Int64  // calls of sleep that have begun
	slow      atomic.Int64  // calls of slowNext that have begun
	table     *vat.Table
}

type tracked struct{ w *world }

func (t tracked) Release() {
	t.w.live.Add(-1)
	t.w.released.Add(1)
}

type echoObj struct{ tracked }
type counterObj struct {
	tracked
	mu   sync.Mutex
	n    uint32
	tags []uint32
}
type chainObj struct {
	tracked
	depth uint32
}
type streamObj struct {
	tracked
	bytes  atomic.Uint64
	writes atomic.Uint32
	inside atomic.Int32
}

func (w *world) serve(o any) *vat.Cap {
	w.live.Add(1)
	return vat.Serve(w.table, o)
}

func (w *world) chain(depth uint32) *vat.Cap { return w.serve(&chainObj{tracked{w}, depth}) }

func newWorld() *world {
	w := &world{cancelled: make(chan struct{}, 100)}
	w.table = vat.NewTable(
		vat.Handle(tp.Echo_echo, func(_ *echoObj, c vat.Call[tp.Echo_echo_Params, tp.Echo_echo_Results]) error {
			text, err := c.Params().Text()
			if err != nil {
				return err
			}
			return c.Results().SetText(text)
		}, vat.Inline()),
		vat.Handle(tp.Echo_data, func(_ *echoObj, c vat.Call[tp.Echo_data_Params, tp.Echo_data_Results]) error {
			n := int(c.Params().Size())
			r, err := c.ResultsFor(n)
			if err != nil {
				return err
			}
			l, err := capnp.NewUInt8List(r.Segment(), int32(n))
			if err != nil {
				return err
			}
			d := l.ToPtr().Data()
			for i := range d {
				d[i] = byte(i)
			}
			return capnp.Struct(r).SetPtr(0, l.ToPtr())
		}),
		vat.Handle(tp.Echo_sleep, func(_ *echoObj, c vat.Call[tp.Echo_sleep_Params, tp.Echo_sleep_Results]) error {
			w.asleep.Add(1)
			select {
			case <-c.Context().Done():
				w.cancelled <- struct{}{}
				return c.Context().Err()
			case <-time.After(time.Duration(c.Params().Ms()) * time.Millisecond):
				return nil
			}
		}),
		vat.Handle(tp.Echo_fail, func(_ *echoObj, c vat.Call[tp.Echo_fail_Params, tp.Echo_fail_Results]) error {
			reason, _ := c.Params().Reason()
			if c.Params().Kind() == 99 {
				return context.DeadlineExceeded
			}
			return &vat.Exception{Type: vat.ExceptionType(c.Params().Kind()), Reason: reason}
		}, vat.Inline()),
		vat.Handle(tp.Echo_crash, func(_ *echoObj, c vat.Call[tp.Echo_crash_Params, tp.Echo_crash_Results]) error {
			panic("as told")
		}, vat.Inline()),
		vat.Handle(tp.Echo_cap, func(_ *echoObj, c vat.Call[tp.Echo_cap_Params, tp.Echo_cap_Results]) error {
			return c.Results().SetCap(c.Caps().Put(c.Caps().Get(c.Params().Cap()).AddRef()))
		}, vat.Inline()),
		vat.Handle(tp.Counter_next, func(o *counterObj, c vat.Call[tp.Counter_next_Params, tp.Counter_next_Results]) error {
			c.Results().SetN(o.take(c.Params().Tag()))
			return nil
		}, vat.Inline()),
		vat.Handle(tp.Counter_slow, func(o *counterObj, c vat.Call[tp.Counter_slow_Params, tp.Counter_slow_Results]) error {
			r := c.Results()
			r.SetN(o.take(c.Params().Tag()))
			c.Go()
			time.Sleep(time.Duration(c.Params().Ms()) * time.Millisecond)
			return nil
		}, vat.Serial()),
		vat.Handle(tp.Chain_next, func(o *chainObj, c vat.Call[tp.Chain_next_Params, tp.Chain_next_Results]) error {
			return c.Results().SetChain(c.Caps().Put(w.chain(o.depth + 1)))
		}, vat.Inline()),
		vat.Handle(tp.Chain_slowNext, func(o *chainObj, c vat.Call[tp.Chain_slowNext_Params, tp.Chain_slowNext_Results]) error {
			w.slow.Add(1)
			select {
			case <-c.Context().Done():
				w.cancelled <- struct{}{}
				return c.Context().Err()
			case <-time.After(time.Duration(c.Params().Ms()) * time.Millisecond):
			}
			return c.Results().SetChain(c.Caps().Put(w.chain(o.depth + 1)))
		}),
		vat.Handle(tp.Chain_depth, func(o *chainObj, c vat.Call[tp.Chain_depth_Params, tp.Chain_depth_Results]) error {
			c.Results().SetDepth(o.depth)
			return nil
		}),
		vat.Handle(tp.Chain_nested, func(o *chainObj, c vat.Call[tp.Chain_nested_Params, tp.Chain_nested_Results]) error {
			r := c.Results()
			n, err := r.NewNode()
			if err != nil {
				return err
			}
			return n.SetChain(c.Caps().Put(w.chain(o.depth + 1)))
		}),
		vat.Handle(tp.Chain_none, func(o *chainObj, c vat.Call[tp.Chain_none_Params, tp.Chain_none_Results]) error {
			return nil
		}, vat.Inline()),
		vat.Handle(tp.Stream_write, func(o *streamObj, c vat.Call[tp.Stream_write_Params, vat.Empty]) error {
			if o.inside.Add(1) != 1 {
				return &vat.Exception{Reason: "two writes at once"}
			}
			defer o.inside.Add(-1)
			d, err := c.Params().Data()
			if err != nil {
				return err
			}
			o.bytes.Add(uint64(len(d)))
			o.writes.Add(1)
			return nil
		}),
		vat.Handle(tp.Stream_done, func(o *streamObj, c vat.Call[tp.Stream_done_Params, tp.Stream_done_Results]) error {
			r := c.Results()
			r.SetBytes(o.bytes.Load())
			r.SetWrites(o.writes.Load())
			return nil
		}, vat.Inline()),
		vat.Handle(tp.Server_echo, func(_ *world, c vat.Call[tp.Server_echo_Params, tp.Server_echo_Results]) error {
			return c.Results().SetEcho(c.Caps().Put(w.serve(&echoObj{tracked{w}})))
		}, vat.Inline()),
		vat.Handle(tp.Server_counter, func(_ *world, c vat.Call[tp.Server_counter_Params, tp.Server_counter_Results]) error {
			return c.Results().SetCounter(c.Caps().Put(w.serve(&counterObj{tracked: tracked{w}})))
		}, vat.Inline()),
		vat.Handle(tp.Server_chain, func(_ *world, c vat.Call[tp.Server_chain_Params, tp.Server_chain_Results]) error {
			return c.Results().SetChain(c.Caps().Put(w.chain(0)))
		}, vat.Inline()),
		vat.Handle(tp.Server_stream, func(_ *world, c vat.Call[tp.Server_stream_Params, tp.Server_stream_Results]) error {
			return c.Results().SetStream(c.Caps().Put(w.serve(&streamObj{tracked: tracked{w}})))
		}, vat.Inline()),
		vat.Handle(tp.Server_invoke, func(_ *world, c vat.Call[tp.Server_invoke_Params, tp.Server_invoke_Results]) error {
			p := c.Params()
			return vat.Do(c.Context(), c.Caps().Get(p.Callback()), tp.Callback_call,
				func(q tp.Callback_call_Params, _ *vat.Caps) error { q.SetN(p.N()); return nil },
				func(q tp.Callback_call_Results, _ *vat.Caps) error {
					c.Results().SetN(q.N())
					return nil
				})
		}),
		vat.Handle(tp.Server_isLocal, func(_ *world, c vat.Call[tp.Server_isLocal_Params, tp.Server_isLocal_Results]) error {
			_, ok := vat.Local[*chainObj](c.Caps().Get(c.Params().Cap()))
			c.Results().SetLocal(ok)
			return nil
		}, vat.Inline()),
		vat.Handle(tp.Server_hold, func(_ *world, c vat.Call[tp.Server_hold_Params, tp.Server_hold_Results]) error {
			ref := c.Caps().Get(c.Params().Cap()).AddRef()
			w.held.Lock()
			old := w.held.cap
			w.held.cap = ref
			w.held.Unlock()
			old.Release()
			return nil
		}, vat.Inline()),
		vat.Handle(tp.Server_drop, func(_ *world, c vat.Call[tp.Server_drop_Params, tp.Server_drop_Results]) error {
			w.drop()
			return nil
		}, vat.Inline()),
		vat.Handle(tp.Server_held, func(_ *world, c vat.Call[tp.Server_held_Params, tp.Server_held_Results]) error {
			w.held.Lock()
			ref := w.held.cap.AddRef()
			w.held.Unlock()
			return c.Results().SetCap(c.Caps().Put(ref))
		}, vat.Inline()),
		vat.Handle(tp.Server_many, func(_ *world, c vat.Call[tp.Server_many_Params, tp.Server_many_Results]) error {
			n := int32(c.Params().N())
			r := c.Results()
			l, err := r.NewCaps(n)
			if err != nil {
				return err
			}
			for i := range n {
				if err := l.Set(int(i), c.Caps().Put(w.chain(uint32(i))).ToPtr()); err != nil {
					return err
				}
			}
			return nil
		}, vat.Inline()),
	)
	return w
}

// kept returns what the peer gave to hold.
func (w *world) kept() *vat.Cap {
	w.held.Lock()
	defer w.held.Unlock()
	return w.held.cap
}

func (w *world) drop() {
	w.held.Lock()
	old := w.held.cap
	w.held.cap = nil
	w.held.Unlock()
	old.Release()
}

func (w *world) Release() {}

func (o *counterObj) take(tag uint32) uint32 {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.n++
	o.tags = append(o.tags, tag)
	return o.n - 1
}

// A pair is a client and a server that speak over a socket.
type pair struct {
	*world
	client, server *vat.Conn
	boot           *vat.Cap
}

// pairs counts the open pairs: goroutines are counted when the last one is closed.
var pairs atomic.Int64

// sockets returns the two ends of a Unix socket.
func sockets(t testing.TB) (a, b net.Conn) {
	t.Helper()
	l, err := net.Listen("unix", filepath.Join(t.TempDir(), "s"))
	vat.OK(t, err)
	defer l.Close()
	a, err = net.Dial("unix", l.Addr().String())
	vat.OK(t, err)
	b, err = l.Accept()
	vat.OK(t, err)
	return a, b
}

func connect(t testing.TB, limits vat.Limits) *pair {
	t.Helper()
	a, b := sockets(t)
	return connectOver(t, a, b, limits)
}

func connectOver(t testing.TB, a, b net.Conn, limits vat.Limits) *pair {
	t.Helper()
	w := newWorld()
	pairs.Add(1)
	p := &pair{world: w}
	p.server = vat.NewConn(b, vat.Options{Bootstrap: vat.Serve(w.table, w), Limits: limits, Logf: func(string, ...any) {}})
	p.client = vat.NewConn(a, vat.Options{Logf: func(string, ...any) {}})
	p.boot = p.client.Bootstrap(t.Context())
	t.Cleanup(func() {
		p.client.Close()
		p.server.Close()
		<-p.client.Done()
		<-p.server.Done()
		w.drop()
		soon(t, func() bool { return w.live.Load() == 0 }, "objects leaked")
		if pairs.Add(-1) == 0 {
			noGoroutines(t)
		}
	})
	return p
}

// patience is how long a test waits for what comes at once on an idle machine.
const patience = 30 * time.Second

// soon waits until ok returns true. The test fails with what if that takes longer than patience.
func soon(t testing.TB, ok func() bool, what string) {
	t.Helper()
	for end := time.Now().Add(patience); !ok(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Error(what)
			return
		}
	}
}

// noGoroutines waits until no goroutine of the package is running.
func noGoroutines(t testing.TB) {
	t.Helper()
	var stacks string
	soon(t, func() bool {
		buf := make([]byte, 1<<20)
		stacks = string(buf[:runtime.Stack(buf, true)])
		return !strings.Contains(stacks, "\ncreated by capd/vat.")
	}, "goroutines leaked")
	if t.Failed() && strings.Contains(stacks, "\ncreated by capd/vat.") {
		t.Log(stacks)
	}
}

// asks makes the client hold c, which the server serves.
func (p *pair) asks(t testing.TB, c *vat.Cap) *vat.Cap {
	t.Helper()
	p.held.Lock()
	p.held.cap = c
	p.held.Unlock()
	a := vat.Send(t.Context(), p.boot, tp.Server_held, nil)
	defer a.Release()
	return a.Cap(tp.Server_held_Results_cap)
}

func (p *pair) root(t testing.TB) *vat.Cap {
	t.Helper()
	a := vat.Send(t.Context(), p.boot, tp.Server_chain, nil)
	defer a.Release()
	return a.Cap(tp.Server_chain_Results_chain)
}

func (p *pair) echoCap(t testing.TB) *vat.Cap {
	t.Helper()
	a := vat.Send(t.Context(), p.boot, tp.Server_echo, nil)
	defer a.Release()
	return a.Cap(tp.Server_echo_Results_echo)
}

func depthOf(ctx context.Context, c *vat.Cap) (n uint32, err error) {
	err = vat.Do(ctx, c, tp.Chain_depth, nil, func(r tp.Chain_depth_Results, _ *vat.Caps) error {
		n = r.Depth()
		return nil
	})
	return n, err
}

func echo(ctx context.Context, c *vat.Cap, text string) (got string, err error) {
	err = vat.Do(ctx, c, tp.Echo_echo, func(p tp.Echo_echo_Params, _ *vat.Caps) error { return p.SetText(text) },
		func(r tp.Echo_echo_Results, _ *vat.Caps) (err error) {
			got, err = r.Text()
			return err
		})
	return got, err
}
