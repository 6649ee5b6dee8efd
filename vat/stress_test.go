package vat_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"capd/vat"
	tp "capd/vat/internal/testproto"
)

func TestSettle(t *testing.T) {
	p := connect(t, vat.Limits{})
	c := p.root(t)
	defer c.Release()
	a := vat.Send(t.Context(), c, tp.Chain_slowNext, func(q tp.Chain_slowNext_Params, _ *vat.Caps) error { q.SetMs(30); return nil })
	defer a.Release()
	d := a.Cap(tp.Chain_slowNext_Results_chain)
	defer d.Release()
	ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
	defer cancel()
	if err := d.Settle(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("d.Settle(): %v, want %v", err, context.DeadlineExceeded)
	}
	if err := d.Settle(t.Context()); err != nil {
		t.Errorf("d.Settle(): %v", err)
	}
	_, _, err := a.Await(ctx)
	if err != nil {
		t.Errorf("a.Await: %v: it is there by then", err)
	}
	if err := (*vat.Cap)(nil).Settle(t.Context()); err != nil {
		t.Errorf("(*vat.Cap)(nil).Settle(): %v", err)
	}
}

// Everything happens at once, from many goroutines, and calls are given up at random.
func TestStress(t *testing.T) {
	far := connect(t, vat.Limits{})
	p := connect(t, vat.Limits{})
	root, distant := p.root(t), far.root(t)
	e := p.echoCap(t)
	var wg sync.WaitGroup
	for g := range uint64(8) {
		wg.Go(func() {
			rnd := rand.New(rand.NewPCG(g, 1))
			for range 150 {
				ctx, cancel := context.WithTimeout(t.Context(), time.Duration(rnd.IntN(5))*time.Millisecond)
				c := root.AddRef()
				if rnd.IntN(3) == 0 { // by way of the server, and for two of them by way of this process
					a := vat.Send(ctx, e, tp.Echo_cap, func(q tp.Echo_cap_Params, caps *vat.Caps) error {
						return q.SetCap(caps.Put(distant.AddRef()))
					})
					c.Release()
					c = a.Cap(0)
					a.Release()
				}
				for range rnd.IntN(5) {
					var next *vat.Cap
					if rnd.IntN(2) == 0 {
						a := vat.Send(ctx, c, tp.Chain_next, nil)
						next = a.Cap(0)
						a.Release()
					} else {
						a := vat.Send(ctx, c, tp.Chain_slowNext, func(q tp.Chain_slowNext_Params, _ *vat.Caps) error {
							q.SetMs(uint32(rnd.IntN(3)))
							return nil
						})
						next = a.Cap(0)
						if rnd.IntN(2) == 0 {
							_, _, _ = a.Await(ctx)
						}
						a.Release()
					}
					c.Release()
					c = next
				}
				_, _ = depthOf(ctx, c)
				c.Release()
				cancel()
				for len(p.cancelled) > 50 {
					<-p.cancelled
				}
				for len(far.cancelled) > 50 {
					<-far.cancelled
				}
			}
		})
	}
	wg.Wait()
	_, err := depthOf(t.Context(), root)
	vat.OK(t, err)
	_, err = depthOf(t.Context(), distant)
	vat.OK(t, err)
	e.Release()
	soon(t, func() bool { return p.live.Load() == 1 && far.live.Load() == 1 }, "objects leaked")
	for _, c := range []*vat.Conn{p.client, p.server, far.client, far.server} {
		soon(t, func() bool {
			s := c.Stats()
			return s.Questions == 0 && s.Answers == 0 && s.Embargoes == 0 && s.Exports+s.Imports == 2
		}, "tables leaked")
		if got := c.Stats().Calls; got != 0 {
			t.Errorf("c.Stats().Calls = %d, want 0", got)
		}
		if got := c.Stats().CallBytes; got != 0 {
			t.Errorf("c.Stats().CallBytes = %d, want 0", got)
		}
		if got := c.Stats().ResultBytes; got != 0 {
			t.Errorf("c.Stats().ResultBytes = %d, want 0", got)
		}
		if t.Failed() {
			t.Logf("%+v", c.Stats())
		}
	}
	root.Release()
	distant.Release()
}
