package vat_test

import (
	"strings"
	"sync"
	"testing"

	"capd/vat"
	tp "capd/vat/internal/testproto"
)

// trier records how its methods were run. next would block blocks
// times, and slow always.
type trier struct {
	mu     sync.Mutex
	n      uint32
	tried  []bool // of each run of a handler, whether it was to wait for nothing
	blocks int
}

func (o *trier) run(trying bool) (n uint32, block bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.tried = append(o.tried, trying)
	if trying && o.blocks > 0 {
		o.blocks--
		return 0, true
	}
	o.n++
	return o.n - 1, false
}

var triers = vat.NewTable(
	vat.Handle(tp.Counter_next, func(o *trier, c vat.Call[tp.Counter_next_Params, tp.Counter_next_Results]) error {
		r := c.Results()
		n, block := o.run(c.Trying())
		if block {
			r.SetN(99)
			return vat.ErrWouldBlock
		}
		r.SetN(r.N() + n) // a result of the first run does not show
		return nil
	}, vat.Try(), vat.Serial()),
	vat.Handle(tp.Counter_slow, func(o *trier, c vat.Call[tp.Counter_slow_Params, tp.Counter_slow_Results]) error {
		return vat.ErrWouldBlock
	}),
)

// A handler that would block on the reader is run again in the pool, in the same order.
func TestTry(t *testing.T) {
	o := &trier{blocks: 1}
	a, b := sockets(t)
	h := vat.NewConn(a, vat.Options{Bootstrap: vat.Serve(triers, o)})
	g := vat.NewConn(b, vat.Options{})
	t.Cleanup(func() { h.Close(); g.Close() })
	c := g.Bootstrap(t.Context())
	defer c.Release()
	var sent []*vat.Answer[tp.Counter_next_Results]
	for range 100 {
		sent = append(sent, vat.Send(t.Context(), c, tp.Counter_next, nil))
	}
	for i, a := range sent {
		r, _, err := a.Await(t.Context())
		vat.OK(t, err)
		if got := int(r.N()); got != i {
			t.Fatalf("r.N() = %d, want %d: calls start in order", got, i)
		}
		a.Release()
	}
	if len(o.tried) != 101 {
		t.Fatalf("%d runs, want 101", len(o.tried))
	}
	if !o.tried[0] {
		t.Fatal("the first run may wait")
	}
	if o.tried[1] {
		t.Fatal("the second run may not wait")
	}

	err := vat.Do(t.Context(), c, tp.Counter_slow, nil, nil)
	if err == nil || !strings.Contains(err.Error(), "internal") {
		t.Fatalf("vat.Do: %v, want it to contain %q: only a handler that tries may say that it would block", err, "internal")
	}
}
