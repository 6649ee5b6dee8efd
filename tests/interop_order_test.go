package tests

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	rpccp "capnproto.org/go/capnp/v3/std/capnp/rpc"

	"capd/tests/interop/order"
	"capd/vat"
)

// Promises that resolve late, between package vat and a C++ peer (interop/peer). Calls on one
// reference start in the order in which they were made, wherever it leads in the end. If it leads
// to the caller itself, later calls wait until the earlier ones have come back (rpc.capnp: Resolve,
// Disembargo).

// notes serves order.Log.
type notes struct {
	mu  sync.Mutex
	all []uint32
}

// inOrder reports whether n calls came in order.
func (l *notes) inOrder(n int) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	for i, got := range l.all {
		if got != uint32(i) {
			return false
		}
	}
	return len(l.all) == n
}

// orders serves order.Order.
type orders struct {
	settled chan struct{}
	self    *vat.Cap // not counted, since it would keep itself alive
	given   *vat.Cap // what forward answers after it has settled, unless that is a log of its own
}

var orderTable *vat.Table

func init() { // its methods make more capabilities of its kind
	orderTable = vat.NewTable(
		vat.Handle(order.Log_add, func(l *notes, c vat.Call[order.Log_add_Params, order.Log_add_Results]) error {
			time.Sleep(20 * time.Microsecond) // so that others have come and wait to start
			l.mu.Lock()
			defer l.mu.Unlock()
			l.all = append(l.all, c.Params().N())
			return nil
		}, vat.Serial()),
		vat.Handle(order.Log_noted, func(l *notes, c vat.Call[order.Log_noted_Params, order.Log_noted_Results]) error {
			l.mu.Lock()
			defer l.mu.Unlock()
			r := c.Results()
			all, err := r.NewAll(int32(len(l.all)))
			for i, n := range l.all {
				all.Set(i, n)
			}
			return err
		}),
		vat.Handle(order.Order_later, func(o *orders, c vat.Call[order.Order_later_Params, order.Order_later_Results]) error {
			return c.Results().SetLog(c.Caps().Put(o.own()))
		}),
		vat.Handle(order.Order_forward, func(o *orders, c vat.Call[order.Order_forward_Params, order.Order_forward_Results]) error {
			r := c.Results()
			if o.given != nil {
				<-o.settled
				return r.SetLog(c.Caps().Put(o.given.AddRef()))
			}
			return r.SetLog(c.Caps().Put(o.own()))
		}),
		vat.Handle(order.Order_yours, func(o *orders, c vat.Call[order.Order_yours_Params, order.Order_yours_Results]) error {
			return c.Results().SetLog(c.Caps().Put(o.promise(c.Caps().Get(c.Params().Log()))))
		}),
		vat.Handle(order.Order_relay, func(o *orders, c vat.Call[order.Order_relay_Params, order.Order_relay_Results]) error {
			c.Go()
			select {
			case <-o.settled:
			case <-c.Context().Done():
				return c.Context().Err()
			}
			if !c.Params().HasLog() {
				return &vat.Exception{Type: vat.Failed, Reason: "broken as told"}
			}
			return c.Results().SetLog(c.Caps().Put(c.Caps().Get(c.Params().Log()).AddRef()))
		}),
		vat.Handle(order.Order_broken, func(o *orders, c vat.Call[order.Order_broken_Params, order.Order_broken_Results]) error {
			return c.Results().SetLog(c.Caps().Put(o.promise(nil)))
		}),
		vat.Handle(order.Order_settle, func(o *orders, c vat.Call[order.Order_settle_Params, order.Order_settle_Results]) error {
			close(o.settled)
			return nil
		}),
	)
}

// own returns a promise of a new log.
func (o *orders) own() *vat.Cap {
	log := vat.Serve(orderTable, &notes{})
	defer log.Release()
	return o.promise(log)
}

// promise returns a promise of log, or of a failure if log is nil. Its own relay answers it.
func (o *orders) promise(log *vat.Cap) *vat.Cap {
	a := vat.Send(context.Background(), o.self, order.Order_relay, func(p order.Order_relay_Params, caps *vat.Caps) error {
		if log == nil {
			return nil
		}
		return p.SetLog(caps.Put(log.AddRef()))
	})
	defer a.Release()
	return a.Cap(order.Order_relay_Results_log)
}

// ways are the methods of Order that return a log. ours says that the log is the caller's own in
// the end.
var ways = []struct {
	name           string
	ours, resolves bool
}{
	{name: "later", resolves: true},
	{name: "yours", ours: true, resolves: true},
	{name: "relay", ours: true},
	{name: "broken", resolves: true},
}

// Our vat calls a C++ peer.
func TestInteropOrderCxxServer(t *testing.T) {
	t.Parallel()
	cxx(t, "peer")
	for _, w := range ways {
		t.Run(w.name, func(t *testing.T) { orderAtCxx(t, w.name, w.ours, w.resolves, w.resolves) })
		if w.resolves {
			t.Run(w.name+", called before its promise is there", func(t *testing.T) { orderAtCxx(t, w.name, w.ours, true, false) })
		}
	}
}

// orderAtCxx makes calls on a log of a C++ peer before, while and after it is known where the log
// leads. With waits, the first calls are made on a promise of the peer. Otherwise they are made on
// a promised answer.
func orderAtCxx(t *testing.T, way string, ours, resolves, waits bool) {
	ctx := t.Context()
	conn, wire := dialPeer(t)
	boot := conn.Bootstrap(ctx)
	defer boot.Release()
	mine := &notes{}
	own := vat.Serve(orderTable, mine)
	defer own.Release()

	log := orderLog(ctx, boot, way, own)
	defer log.Release()
	var adds adding
	if waits {
		ok(t, answered(ctx, boot))
	}
	adds.add(ctx, log, 300)
	settled := vat.Send(ctx, boot, order.Order_settle, nil)
	defer settled.Release()
	adds.add(ctx, log, 300)
	_, _, err := settled.Await(ctx)
	ok(t, err)
	ok(t, log.Settle(ctx))
	before := wire.out.count(rpccp.Message_Which_call)
	adds.add(ctx, log, 300)
	failed, err := adds.failed(ctx)
	if way == "broken" {
		if failed != len(adds) || !strings.Contains(err.Error(), "broken as told") {
			t.Errorf("%d of %d calls on a broken promise failed: %v", failed, len(adds), err)
		}
		return
	}
	ok(t, err)
	var all []uint32
	ok(t, vat.Do(ctx, log, order.Log_noted, nil, func(r order.Log_noted_Results, _ *vat.Caps) error {
		l, err := r.All()
		for i := range l.Len() {
			all = append(all, l.At(i))
		}
		return err
	}))
	if !(&notes{all: all}).inOrder(len(adds)) {
		t.Errorf("not in order: %v", all)
	}
	direct := wire.out.count(rpccp.Message_Which_call) == before
	if direct != ours || mine.inOrder(len(adds)) != ours {
		t.Errorf("later calls went directly to us: %v; they were ours: %v", direct, mine.inOrder(len(adds)))
	}
	if resolves && wire.in.count(rpccp.Message_Which_resolve) == 0 {
		t.Error("the peer sent no Resolve")
	}
	if got := wire.in.count(rpccp.Message_Which_disembargo); ours && (got == 0 || got != wire.out.count(rpccp.Message_Which_disembargo)) {
		t.Errorf("%d embargoes were lifted, of %d", got, wire.out.count(rpccp.Message_Which_disembargo))
	}
}

// orderLog requests a log in one of the ways.
func orderLog(ctx context.Context, boot *vat.Cap, how string, own *vat.Cap) *vat.Cap {
	switch how {
	case "later":
		a := vat.Send(ctx, boot, order.Order_later, nil)
		defer a.Release()
		return a.Cap(order.Order_later_Results_log)
	case "yours":
		a := vat.Send(ctx, boot, order.Order_yours, func(p order.Order_yours_Params, caps *vat.Caps) error { return p.SetLog(caps.Put(own.AddRef())) })
		defer a.Release()
		return a.Cap(order.Order_yours_Results_log)
	case "relay":
		a := vat.Send(ctx, boot, order.Order_relay, func(p order.Order_relay_Params, caps *vat.Caps) error { return p.SetLog(caps.Put(own.AddRef())) })
		defer a.Release()
		return a.Cap(order.Order_relay_Results_log)
	}
	a := vat.Send(ctx, boot, order.Order_broken, nil)
	defer a.Release()
	return a.Cap(order.Order_broken_Results_log)
}

// The C++ peer makes a tail call. It calls us with results that are to stay here
// (sendResultsTo.yourself), and answers that our own call has those results
// (takeFromOtherQuestion). Calls that we have made on them meanwhile come back.
func TestInteropTailCall(t *testing.T) {
	ctx := t.Context()
	conn, wire := dialPeer(t)
	boot := conn.Bootstrap(ctx)
	defer boot.Release()
	o := &orders{settled: make(chan struct{})}
	o.self = vat.Serve(orderTable, o)
	defer o.self.Release()
	a := vat.Send(ctx, boot, order.Order_forward, func(p order.Order_forward_Params, caps *vat.Caps) error { return p.SetTo(caps.Put(o.self.AddRef())) })
	defer a.Release()
	log := a.Cap(order.Order_forward_Results_log)
	defer log.Release()
	var adds adding
	adds.add(ctx, log, 300)
	_, _, err := a.Await(ctx)
	ok(t, err)
	adds.add(ctx, log, 300)
	close(o.settled)
	ok(t, log.Settle(ctx))
	adds.add(ctx, log, 300)
	_, err = adds.failed(ctx)
	ok(t, err)
	if mine, here := vat.Local[*notes](log); !here || !mine.inOrder(900) {
		t.Errorf("the log is ours: %v; %v", here, mine)
	}
	if wire.in.taken == 0 || wire.in.kept == 0 {
		t.Errorf("the peer made no tail call: %d results were to stay here, %d were taken", wire.in.kept, wire.in.taken)
	}
}

// As above, but our answer belongs to the peer. Calls that have come back go to it, and calls that
// we make after we know do not overtake them.
func TestInteropTailCallBack(t *testing.T) {
	ctx := t.Context()
	conn, wire := dialPeer(t)
	boot := conn.Bootstrap(ctx)
	defer boot.Release()
	given := orderLog(ctx, boot, "later", nil)
	defer given.Release()
	ok(t, vat.Do(ctx, boot, order.Order_settle, nil, nil))
	ok(t, given.Settle(ctx))

	o := &orders{settled: make(chan struct{}), given: given}
	o.self = vat.Serve(orderTable, o)
	defer o.self.Release()
	a := vat.Send(ctx, boot, order.Order_forward, func(p order.Order_forward_Params, caps *vat.Caps) error { return p.SetTo(caps.Put(o.self.AddRef())) })
	defer a.Release()
	log := a.Cap(order.Order_forward_Results_log)
	defer log.Release()
	var adds adding
	adds.add(ctx, log, 300)
	close(o.settled)
	_, _, err := a.Await(ctx)
	ok(t, err)
	adds.add(ctx, log, 300)
	ok(t, log.Settle(ctx))
	adds.add(ctx, log, 300)
	_, err = adds.failed(ctx)
	ok(t, err)
	ok(t, vat.Do(ctx, given, order.Log_noted, nil, func(r order.Log_noted_Results, _ *vat.Caps) error {
		all, err := r.All()
		got := &notes{}
		for i := range all.Len() {
			got.all = append(got.all, all.At(i))
		}
		if !got.inOrder(900) {
			t.Errorf("not in order: %v", got.all)
		}
		return err
	}))
	if wire.in.taken == 0 || wire.in.kept == 0 {
		t.Errorf("the peer made no tail call: %d results were to stay here, %d were taken", wire.in.kept, wire.in.taken)
	}
	if wire.in.count(rpccp.Message_Which_disembargo) == 0 {
		t.Error("nothing waited for the calls that came around")
	}
}

// dialPeer connects to a running C++ peer.
func dialPeer(t *testing.T) (*vat.Conn, *wireTap) {
	t.Helper()
	p := startCxx(t, "peer", "serve", "")
	nc, err := net.Dial("unix", p.socket)
	ok(t, err)
	wire := &wireTap{Conn: nc}
	conn := vat.NewConn(wire, vat.Options{})
	t.Cleanup(func() { conn.Close(); <-conn.Done() })
	return conn, wire
}

// adding is calls of Log.add under way. Each adds the number of calls before it.
type adding []*vat.Answer[order.Log_add_Results]

func (a *adding) add(ctx context.Context, log *vat.Cap, n int) {
	for range n {
		*a = append(*a, vat.Send(ctx, log, order.Log_add, func(p order.Log_add_Params, _ *vat.Caps) error {
			p.SetN(uint32(len(*a)))
			return nil
		}))
	}
}

// failed waits for all calls. It returns how many failed, and the error of one of them.
func (a adding) failed(ctx context.Context) (n int, err error) {
	for _, c := range a {
		if _, _, e := c.Await(ctx); e != nil {
			n++
			err = e
		}
		c.Release()
	}
	return n, err
}

// answered waits for a call that is answered after all calls before it.
func answered(ctx context.Context, boot *vat.Cap) error {
	a := vat.Send(ctx, boot, order.Order_later, nil)
	defer a.Release()
	_, _, err := a.Await(ctx)
	return err
}

// A C++ peer calls our vat.
func TestInteropOrderCxxClient(t *testing.T) {
	t.Parallel()
	program := cxx(t, "peer")
	for _, w := range ways {
		t.Run(w.name, func(t *testing.T) {
			l, err := net.Listen("unix", filepath.Join(newPlace(t).base, "s"))
			ok(t, err)
			defer l.Close()
			cmd := exec.Command(program, w.name, l.Addr().String())
			var out bytes.Buffer
			cmd.Stdout, cmd.Stderr = &out, &out
			ok(t, cmd.Start())
			nc, err := l.Accept()
			ok(t, err)
			o := &orders{settled: make(chan struct{})}
			o.self = vat.Serve(orderTable, o)
			wire := &wireTap{Conn: nc}
			conn := vat.NewConn(wire, vat.Options{Bootstrap: o.self})
			within(t, "the C++ client", func() { err = cmd.Wait() })
			conn.Close()
			<-conn.Done()
			failed := 0
			if w.name == "broken" {
				failed = 900
			}
			if want := fmt.Sprintf("%s 900 calls, %d failed\n", w.name, failed); err != nil || out.String() != want {
				t.Errorf("the client ended with %v, having said %q, want %q", err, &out, want)
			}
			if w.resolves && wire.out.count(rpccp.Message_Which_resolve) == 0 {
				t.Error("we sent no Resolve")
			}
			if got := wire.in.count(rpccp.Message_Which_disembargo); w.ours != (got > 0) || got != wire.out.count(rpccp.Message_Which_disembargo) {
				t.Errorf("%d embargoes were lifted, of %d", wire.out.count(rpccp.Message_Which_disembargo), got)
			}
		})
	}
}
